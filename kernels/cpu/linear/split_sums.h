// The sums H and L (fixed_point.h) of a tile of an int8 weight, without the carry.
#ifndef TVQ_KERNELS_CPU_LINEAR_SPLIT_SUMS_H_
#define TVQ_KERNELS_CPU_LINEAR_SPLIT_SUMS_H_

#include "kernels/cpu/linear/tile.h"

namespace tvq {

// Sums of rows, each for all outputs of a pair of panels.
struct SplitSums {
  static constexpr int64_t kMaxRows = 16;
  alignas(64) int32_t high[kMaxRows * kPairOutputs];
  alignas(64) int32_t low[kMaxRows * kPairOutputs];
};

// Begins the sums of a tile with the offsets in its rows' heads, which correct for weights that are
// stored as unsigned (fixed_point.h).
void BeginSums(const TileInput& input, SplitSums& split);

// sums = (256 high + low) step, where `split` has the offsets and all products of a tile.
void ScaleSums(const TileInput& input, const SplitSums& split, float* sums);

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_LINEAR_SPLIT_SUMS_H_
