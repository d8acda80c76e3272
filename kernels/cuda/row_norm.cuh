// The norm of a row by a block: x becomes (x - mean) * scale.
#ifndef TVQ_KERNELS_CUDA_ROW_NORM_CUH_
#define TVQ_KERNELS_CUDA_ROW_NORM_CUH_

#include "kernels/cuda/reduce.cuh"
#include "kernels/ops/layer_norm.h"
#include "kernels/ops/qkvg_projection.h"
#include "kernels/ops/rms_norm.h"

namespace tvq::TVQ_CUDA {

struct RowNorm {
  float mean = 0;  // of LayerNorm; rms norm takes none off
  float scale = 1;

  __device__ float operator()(float x) const { return (x - mean) * scale; }
};

// Of a row [width], for every thread of the block: thread t adds what belongs to elements t,
// t + blockDim.x, ..., then BlockReduce. LayerNorm adds twice, values and then squares of what
// differs from their mean. `partial` as for BlockReduce.
__device__ inline RowNorm NormOfRow(Norm norm, const float* x, int64_t width, float* partial) {
  const auto elements = static_cast<float>(width);
  RowNorm row;
  if (norm == Norm::kLayer) {
    float sum = 0;
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) sum += x[i];
    row.mean = BlockReduce(sum, partial, Add()) / elements;
  }
  float squares = 0;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    const float difference = x[i] - row.mean;
    squares = fmaf(difference, difference, squares);
  }
  const float epsilon = norm == Norm::kLayer ? kLayerNormEpsilon : kRmsNormEpsilon;
  row.scale = 1 / sqrtf(BlockReduce(squares, partial, Add()) / elements + epsilon);
  return row;
}

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_ROW_NORM_CUH_
