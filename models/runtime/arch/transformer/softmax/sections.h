// The canonical form of a cache of keys and values (docs/state.md): the sections of a layer,
// written, read and checked in host memory.
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SOFTMAX_SECTIONS_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SOFTMAX_SECTIONS_H_

#include <array>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "kernels/ops/attention/softmax_attention.h"
#include "models/runtime/state.h"

namespace tvq::transformer {

// "layers.N.key" [G, n, K] and "layers.N.value" [G, n, V]: the n positions there are, one key/value
// head after the other.
inline constexpr int64_t kCacheSections = 2;
std::array<SectionInfo, kCacheSections> CacheSections(const KeyValueShape& shape, int64_t layer,
                                                      int64_t position);

// All but the first `skipped` of them. `pages` is the layer's part of every page, one behind the
// other.
absl::Status VisitCache(const KeyValueShape& shape, int64_t layer, int64_t position,
                        std::span<const std::byte> pages, int64_t skipped,
                        const State::SectionVisitor& visit);

// Reads the sections of one layer into `pages`. INVALID_ARGUMENT, naming section and element, for
// what is not finite.
absl::Status ReadCache(const KeyValueShape& shape, int64_t layer, int64_t position,
                       const State::SectionReader& read, std::span<std::byte> pages);

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SOFTMAX_SECTIONS_H_
