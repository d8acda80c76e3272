// Any bytes as the sections of a state of any kind of attention: what is accepted comes back as it
// was, and what is refused leaves a blank state. The first byte chooses the kind, two more the
// position; where bytes end there are zeros.

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "models/runtime/layers/attention/cache_parts.h"
#include "models/runtime/layers/attention/linear/parts.h"
#include "tests/fuzz/tiny_state.h"

namespace tvq::fuzz {
namespace {

std::unique_ptr<State> NewState(uint8_t kind) {
  static auto* const memory = new HostMemory();
  static const auto* const linear = new LinearParts({.kv_heads = 2, .features = 4, .value = 3});
  static const auto* const one = new CacheParts({1, 2, 3, DType::kFloat32});
  static const auto* const two = new CacheParts({2, 3, 1, DType::kBFloat16});
  // The last one mixes kinds.
  static const auto* const layouts =
      new std::vector<StateLayout>{{{{"0.", linear}, {"1.", linear}}, 0},
                                   {{{"0.", one}}, 400},
                                   {{{"0.", two}, {"1.", two}}, 400},
                                   {{{"0.", two}, {"1.", &TinyParts()}, {"2.", one}}, 400}};
  if (kind == 0) return TinyState();
  return SessionState::Create(*memory, (*layouts)[kind - 1]).value();
}

void Load(std::span<const uint8_t> input) {
  if (input.size() < 3) return;
  const std::unique_ptr<State> state = NewState(input[0] % 5);
  const int64_t position = (input[1] << 8 | input[2]) % 512;
  std::vector<std::byte> given;
  size_t next = 3;
  const absl::Status loaded =
      state->Load(position, [&](const SectionInfo&, std::span<std::byte> out) {
        const auto rest = std::as_bytes(input.subspan(next));
        const size_t count = std::min(rest.size(), out.size());
        std::fill(std::copy_n(rest.begin(), count, out.begin()), out.end(), std::byte{0});
        next += count;
        given.insert(given.end(), out.begin(), out.end());
        return absl::OkStatus();
      });
  if (!loaded.ok()) {
    if (state->position() != 0) std::abort();
    return;
  }
  if (state->position() != position) std::abort();
  std::vector<std::byte> kept;
  const absl::Status visited =
      state->VisitSections([&](const SectionInfo&, std::span<const std::byte> bytes) {
        kept.insert(kept.end(), bytes.begin(), bytes.end());
        return absl::OkStatus();
      });
  if (!visited.ok() || kept != given) std::abort();
}

}  // namespace
}  // namespace tvq::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tvq::fuzz::Load({data, size});
  return 0;
}
