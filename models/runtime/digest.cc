#include "models/runtime/digest.h"

#include <xxhash.h>

#include <new>

#include "absl/strings/str_format.h"

namespace tvq {

Digest::Digest() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state_.get());
}

void Digest::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

Digest& Digest::Add(std::string_view bytes) {
  Add(static_cast<int64_t>(bytes.size()));
  XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
  return *this;
}

Digest& Digest::Add(int64_t value) {
  unsigned char bytes[8];
  for (int i = 0; i < 8; ++i) {
    bytes[i] = static_cast<unsigned char>(static_cast<uint64_t>(value) >> (8 * i));
  }
  XXH3_128bits_update(state_.get(), bytes, sizeof(bytes));
  return *this;
}

std::string Digest::Hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
  return absl::StrFormat("%016x%016x", hash.high64, hash.low64);
}

}  // namespace tvq
