// A state to load into, of the model that tests/server/sessions/tiny_model.h makes, without the
// kernels to compute on it.
#ifndef TVQ_TESTS_FUZZ_TINY_STATE_H_
#define TVQ_TESTS_FUZZ_TINY_STATE_H_

#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "models/runtime/layers/attention/vq/parts.h"
#include "models/runtime/model.h"
#include "models/runtime/stack/session_state.h"
#include "server/sessions/snapshot/byte_stream.h"
#include "tests/models/host_memory.h"

namespace tvq::fuzz {

inline ModelInfo TinyInfo() {
  ModelInfo info;
  info.family = "transformer_vq";
  info.fingerprint = "33defa8f6943ff95e47d90e1d3b46806";
  info.config.vocab_size = 11;
  return info;
}

inline const VqParts& TinyParts() {
  static const auto* const parts =
      new VqParts({.kv_heads = 2, .codes = 3, .window = 5, .value = 5});
  return *parts;
}

inline std::unique_ptr<State> TinyState() {
  static auto* const memory = new HostMemory();
  static const auto* const layout =
      new StateLayout({{"layers.0.", &TinyParts()}, {"layers.1.", &TinyParts()}}, 0);
  return SessionState::Create(*memory, *layout).value();
}

class InputSource : public ByteSource {
 public:
  explicit InputSource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  absl::Status Read(std::span<std::byte> out) override {
    if (out.size() > bytes_.size()) return absl::OutOfRangeError("ends");
    if (!out.empty()) std::memcpy(out.data(), bytes_.data(), out.size());
    bytes_ = bytes_.subspan(out.size());
    return absl::OkStatus();
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace tvq::fuzz

#endif  // TVQ_TESTS_FUZZ_TINY_STATE_H_
