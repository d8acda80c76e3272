// The norm of a row, by a block or by a warp: x becomes (x - mean) * scale.
#ifndef TVQ_KERNELS_CUDA_COMMON_ROW_NORM_CUH_
#define TVQ_KERNELS_CUDA_COMMON_ROW_NORM_CUH_

#include "kernels/cuda/common/reduce.cuh"
#include "kernels/ops/norm_rows.h"

namespace tvq::TVQ_CUDA {

struct RowNorm {
  float mean = 0;  // of LayerNorm; 0 for the rms norm
  float scale = 1;

  __device__ float operator()(float x) const { return (x - mean) * scale; }
};

// Threads of a block that norms a row. Every sum of a row has the same order, also in a warp: as if
// thread t of kNormThreads added the terms of elements t, t + kNormThreads, ..., and BlockReduce
// then added the sums of the threads.
constexpr int kNormThreads = 256;

// sum_of(term): the sum of term(sum so far, element), in that order. LayerNorm sums twice: values,
// and then squares of the differences from their mean.
template <class SumOf>
__device__ RowNorm NormBySums(Norm norm, float epsilon, int64_t width, const SumOf& sum_of) {
  const auto elements = static_cast<float>(width);
  RowNorm row;
  if (norm == Norm::kLayer) row.mean = sum_of(Add()) / elements;
  const float squares = sum_of([mean = row.mean](float sum, float x) {
    const float difference = x - mean;
    return fmaf(difference, difference, sum);
  });
  row.scale = 1 / sqrtf(squares / elements + EpsilonOf(norm, epsilon));
  return row;
}

// The norm of a row [width], for every thread of a block of kNormThreads. `partial` as for
// BlockReduce.
__device__ inline RowNorm NormOfRow(Norm norm, const float* x, int64_t width, float* partial,
                                    float epsilon = kOwnEpsilon) {
  return NormBySums(norm, epsilon, width, [&](const auto& term) {
    constexpr int kAtOnce = 4;  // elements that are loaded at once
    float sum = 0;
#pragma unroll 1
    for (int64_t first = threadIdx.x; first < width; first += kAtOnce * kNormThreads) {
      const auto left = static_cast<int>(width - first);
      float value[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        value[i] = i * kNormThreads < left ? x[first + i * kNormThreads] : 0;
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (i * kNormThreads < left) sum = term(sum, value[i]);
      }
    }
    return BlockReduce<kNormThreads / kWarp>(sum, partial, Add());
  });
}

// The same, bit for bit, for every lane of a warp, which takes the place of all of a block's warps.
// There is no barrier, so a block can norm several rows at a time.
__device__ inline RowNorm NormOfRowByWarp(Norm norm, const float* x, int width) {
  constexpr int kWarps = kNormThreads / kWarp;
  return NormBySums(norm, kOwnEpsilon, width, [&](const auto& term) {
    float sum[kWarps] = {};
    for (int first = LaneId(); first < width; first += kNormThreads) {
      float value[kWarps];
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) {
        const int i = first + warp * kWarp;
        value[warp] = i < width ? x[i] : 0;
      }
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) {
        if (first + warp * kWarp < width) sum[warp] = term(sum[warp], value[warp]);
      }
    }
#pragma unroll
    for (float& partial : sum) partial = WarpReduce(partial, Add());
    float total = sum[0];
#pragma unroll
    for (int warp = 1; warp < kWarps; ++warp) total += sum[warp];
    return total;
  });
}

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_COMMON_ROW_NORM_CUH_
