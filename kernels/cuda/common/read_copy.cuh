// Writes rows of the read copy (kernels/numbers/read_copy.h), a warp for the columns that share a
// scale.
#ifndef TVQ_KERNELS_CUDA_COMMON_READ_COPY_CUH_
#define TVQ_KERNELS_CUDA_COMMON_READ_COPY_CUH_

#include "kernels/cuda/common/kernel.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/numbers/bfloat16.h"
#include "kernels/numbers/read_copy.h"
#include "kernels/ops/attention/vq_attention.h"

namespace tvq::TVQ_CUDA {

constexpr int kCopiedPerLane = static_cast<int>(kVqScaleColumns) / kWarp;

// Writes kVqScaleColumns columns, from kVqScaleColumns * part on, of row `row` of a copy, `rows`
// [.., V] and `scales`. exact(c) is column c; the columns of a lane are a warp apart from one
// another.
template <typename Exact>
__device__ inline void StoreCopied(const VqShape& shape, int64_t row, int64_t part,
                                   const Exact& exact, int8_t* rows, float* scales) {
  float values[kCopiedPerLane];
  int32_t largest = 0;  // bits, in the order of the numbers, as none is negative
#pragma unroll
  for (int i = 0; i < kCopiedPerLane; ++i) {
    const int64_t c = part * kVqScaleColumns + i * kWarp + LaneId();
    values[i] = c < shape.value ? exact(c) : 0;
    largest = Max()(largest, static_cast<int32_t>(__float_as_uint(values[i]) & 0x7fffffffU));
  }
  const QuantizedScale scale(WarpReduce(largest, Max()));
  if (LaneId() == 0) scales[row * shape.scales() + part] = scale.scale;
#pragma unroll
  for (int i = 0; i < kCopiedPerLane; ++i) {
    const int64_t c = part * kVqScaleColumns + i * kWarp + LaneId();
    if (c < shape.value) rows[row * shape.value + c] = scale.Steps(values[i]);
  }
}

// Copies the mean of the `count` > 0 positions that retired to row `row` of the accumulator.
__device__ inline void CopyMean(const VqShape& shape, const VqState& state, int64_t row,
                                int64_t count, int64_t part) {
  const float* sum = state.sum + row * shape.value;
  StoreCopied(
      shape, row, part, [&](int64_t c) { return sum[c] / static_cast<float>(count); }, state.mean,
      state.mean_scale);
}

// Copies slot `row`, counted over all heads, of a window that holds T.
template <typename T>
__device__ inline void CopyRecent(const VqShape& shape, const VqState& state, int64_t row,
                                  int64_t part) {
  const T* value = static_cast<const T*>(state.window_value) + row * shape.value;
  StoreCopied(
      shape, row, part, [&](int64_t c) { return Widen(value[c]); }, state.recent,
      state.recent_scale);
}

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_COMMON_READ_COPY_CUH_
