// The norm of query and key heads (HeadNorm in linear_rows.h), with a warp for each head.
#ifndef TVQ_KERNELS_CUDA_LINEAR_HEAD_NORM_CUH_
#define TVQ_KERNELS_CUDA_LINEAR_HEAD_NORM_CUH_

#include "kernels/cuda/common/kernel.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/tickets.cuh"
#include "kernels/cuda/linear/linear_rows.h"

namespace tvq::TVQ_CUDA {

// Called by all lanes of a warp. Heads 0..heads-1 are the queries', then come the keys'.
__device__ inline void NormHead(const HeadNorm& norm, int64_t row, int head) {
  const bool query = head < norm.heads, biased = query && norm.u != nullptr;
  const int64_t at =
      (query ? row * norm.heads + head : row * norm.kv_heads + head - norm.heads) * norm.width;
  const int width = static_cast<int>(norm.width);
  float* x = (query ? norm.q_u : norm.k) + at;
  float squares = 0;
  for (int i = LaneId(); i < width; i += kWarp) squares = fmaf(x[i], x[i], squares);
  squares = WarpReduce(squares, Add());
  const float scale = norm.scale / sqrtf(squares / static_cast<float>(width) + kRmsNormEpsilon);
  for (int i = LaneId(); i < width; i += kWarp) {
    const float normed = x[i] * scale;
    if (biased) norm.q_w[at + i] = normed + norm.w[head * width + i];
    x[i] = biased ? normed + norm.u[head * width + i] : normed;
  }
}

// Called by all threads of a block that has stored outputs [output, output + count) of rows
// [first_row, end_row); the launch's blocks divide all outputs in this way. Norms those of these
// heads of which all blocks have stored their part. `tickets` [heads + kv_heads][gridDim.y];
// `shared` is the block's shared memory.
__device__ inline void NormCompleteHeads(const HeadNorm& norm, int output, int count, int first_row,
                                         int end_row, uint32_t* tickets, uint32_t& shared) {
  const int width = static_cast<int>(norm.width);
  const int end = min(output + count, static_cast<int>(norm.heads + norm.kv_heads) * width);
  if (norm.heads == 0 || output >= end) return;
  for (int head = output / width; head * width < end; ++head) {
    const int blocks = ((head + 1) * width - 1) / count - head * width / count + 1;
    if (!LastToArrive(tickets + head * gridDim.y + blockIdx.y, blocks, shared)) continue;
    for (int row = first_row + WarpId(); row < end_row;
         row += static_cast<int>(blockDim.x) / kWarp) {
      NormHead(norm, row, head);
    }
  }
}

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_LINEAR_HEAD_NORM_CUH_
