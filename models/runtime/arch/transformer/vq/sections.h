// The canonical form of a Transformer-VQ's state (docs/state.md): the sections of a layer, written,
// read and checked in host memory.
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_SECTIONS_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_SECTIONS_H_

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/ops/attention/vq_attention.h"
#include "models/runtime/state.h"

namespace tvq::transformer {

// "layers.N.acc_sum", "acc_carry", "acc_count", "win_code" and "win_value". The window's two list
// the recent positions, min(position, W), from the oldest to the newest, one key/value head after
// the other; the rest is as VqState has it.
inline constexpr int64_t kVqSections = 5;
std::array<SectionInfo, kVqSections> VqSections(const VqShape& shape, int64_t layer,
                                                int64_t position);

// All but the first `skipped` of them.
absl::Status VisitVqSections(const VqShape& shape, int64_t layer, int64_t position,
                             const VqState& host, int64_t skipped,
                             const State::SectionVisitor& visit);

// Reads the sections of one layer into `host`, which is all zero. INVALID_ARGUMENT, naming section
// and element, unless codes are in [0, S), sums, carries and values finite, counts not negative
// and, for each key/value head, as many in all as positions have retired, and rows that no position
// has retired to zero. These are the invariants that the ops keep and rely on.
absl::Status ReadVqSections(const VqShape& shape, int64_t layer, int64_t position,
                            const State::SectionReader& read, const VqState& host);

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_SECTIONS_H_
