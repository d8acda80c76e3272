// Sums of a tile of an int8 weight, as fixed_point.h has them, without the carry.
#ifndef TVQ_KERNELS_CPU_LINEAR_SPLIT_SUMS_H_
#define TVQ_KERNELS_CPU_LINEAR_SPLIT_SUMS_H_

#include "kernels/cpu/linear/tile.h"

namespace tvq {

// Of rows, each of all outputs of a pair of panels.
struct SplitSums {
  static constexpr int64_t kMaxRows = 16;
  alignas(64) int32_t high[kMaxRows * kPairOutputs];
  alignas(64) int32_t low[kMaxRows * kPairOutputs];
};

// What the heads of a tile's rows say that its products, added to this, will be too much.
void BeginSums(const TileInput& input, SplitSums& split);

// sums = (256 high + low) step: a tile's, of its sums with that and all products.
void ScaleSums(const TileInput& input, const SplitSums& split, float* sums);

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_LINEAR_SPLIT_SUMS_H_
