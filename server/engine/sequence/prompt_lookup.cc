#include "server/engine/sequence/prompt_lookup.h"

#include <algorithm>
#include <bit>

namespace tvq {
namespace {

size_t RingSize(int64_t tokens) {
  return std::bit_ceil(
      static_cast<size_t>(std::clamp<int64_t>(tokens, 2, PromptLookup::kMostTokens)));
}

}  // namespace

PromptLookup::PromptLookup(int64_t tokens)
    : tokens_(RingSize(tokens)),
      mask_(static_cast<uint32_t>(tokens_.size() - 1)),
      three_{3, std::vector<uint32_t>(kPlaces * tokens_.size())},
      two_{2, std::vector<uint32_t>(kPlaces * tokens_.size())} {}

void PromptLookup::Append(int32_t id) {
  tokens_[count_++ & mask_] = id;
  known_ = std::min(known_ + 1, static_cast<uint32_t>(tokens_.size()));
  Note(three_);
  Note(two_);
}

void PromptLookup::Note(Places& places) const {
  places.back = 0;
  const auto length = static_cast<uint32_t>(places.length);
  if (known_ < length) return;
  uint64_t hash = 0;
  for (uint32_t i = 1; i <= length; ++i) {
    // Fibonacci hashing, whose upper bits are mixed best.
    hash = (hash ^ static_cast<uint32_t>(At(count_ - i))) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  uint32_t& end = places.ends[hash & (places.ends.size() - 1)];
  const uint32_t back = count_ - end;
  end = count_;
  // Another run may have the place, and what was there may have left the ring.
  if (back == 0 || back > known_ - length) return;
  for (uint32_t i = 1; i <= length; ++i) {
    if (At(count_ - i) != At(count_ - back - i)) return;
  }
  places.back = back;
}

void PromptLookup::Guess(int64_t most, std::vector<int32_t>& out) const {
  const uint32_t back = three_.back > 0 ? three_.back : two_.back;
  if (back == 0) return;
  const size_t first = out.size();
  for (int64_t i = 0; i < most; ++i) {
    out.push_back(i < back ? At(count_ - back + static_cast<uint32_t>(i))
                           : out[first + static_cast<size_t>(i - back)]);
  }
}

}  // namespace tvq
