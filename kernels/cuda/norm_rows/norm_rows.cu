// out = x / sqrt(mean(x^2) + eps) * gain + bias, and out = (x - mean(x)) / deviation * gain + bias
// (kernels/ops/norm_rows.h), row by row. x, out [N, D].
//
// Moves N D floats in (from cache the second time, and the third of LayerNorm) and out. Each row
// has a block: the order of its sums follows from D alone (row_norm.cuh).
#include "kernels/cuda/common/kernel.cuh"
#include "kernels/cuda/common/row_norm.cuh"
#include "kernels/ops/norm_rows.h"

namespace tvq::TVQ_CUDA {
namespace {

struct Shared {
  float partial[kNormThreads / kWarp];
};

__global__ void __launch_bounds__(kNormThreads)
    NormKernel(Norm norm, float epsilon, const float* x, const float* gain, const float* bias,
               int64_t width, float* out) {
  LetSuccessorBegin();
  WaitForPredecessor();
  const int64_t row = static_cast<int64_t>(blockIdx.x) * width;
  const RowNorm normed = NormOfRow(norm, x + row, width, BlockShared<Shared>().partial, epsilon);
  for (int64_t i = threadIdx.x; i < width; i += kNormThreads) {
    float y = normed(x[row + i]);
    if (gain != nullptr) y *= gain[i];
    if (bias != nullptr) y += bias[i];
    out[row + i] = y;
  }
}

}  // namespace

absl::Status CudaNormRows(Device& device, const NormRowsArgs& args) {
  const int64_t rows = args.x.dim(0);
  if (rows == 0) return absl::OkStatus();
  return Launch("NormRows", device, {.blocks = rows, .threads = kNormThreads, .overlaps = true},
                NormKernel, args.norm, args.epsilon, args.x.data, args.gain.data, args.bias.data,
                args.x.dim(1), args.out.data);
}

}  // namespace tvq::TVQ_CUDA
