// out = x / sqrt(mean(x^2) + eps) * gain + bias, and out = (x - mean(x)) / deviation * gain + bias
// (kernels/ops/rms_norm.h, layer_norm.h), row by row. x, out [N, D].
//
// Moves N D floats in (from cache the second time, and the third of LayerNorm) and out. A block a
// row: the order of its sums follows from D alone (row_norm.cuh).
#include "kernels/cuda/common/kernel.cuh"
#include "kernels/cuda/common/row_norm.cuh"

namespace tvq::TVQ_CUDA {
namespace {

struct Shared {
  float partial[kNormThreads / kWarp];
};

__global__ void __launch_bounds__(kNormThreads)
    NormKernel(Norm norm, const float* x, const float* gain, const float* bias, int64_t width,
               float* out) {
  LetSuccessorBegin();
  WaitForPredecessor();
  const int64_t row = static_cast<int64_t>(blockIdx.x) * width;
  const RowNorm normed = NormOfRow(norm, x + row, width, BlockShared<Shared>().partial);
  for (int64_t i = threadIdx.x; i < width; i += kNormThreads) {
    float y = normed(x[row + i]);
    if (gain != nullptr) y *= gain[i];
    if (bias != nullptr) y += bias[i];
    out[row + i] = y;
  }
}

template <class Args>
absl::Status Run(const char* name, Device& device, Norm norm, const Args& args) {
  const int64_t rows = args.x.dim(0);
  if (rows == 0) return absl::OkStatus();
  return Launch(name, device, {.blocks = rows, .threads = kNormThreads, .overlaps = true},
                NormKernel, norm, args.x.data, args.gain.data, args.bias.data, args.x.dim(1),
                args.out.data);
}

}  // namespace

absl::Status CudaRmsNorm(Device& device, const RmsNormArgs& args) {
  return Run("RmsNorm", device, Norm::kRms, args);
}

absl::Status CudaLayerNorm(Device& device, const LayerNormArgs& args) {
  return Run("LayerNorm", device, Norm::kLayer, args);
}

}  // namespace tvq::TVQ_CUDA
