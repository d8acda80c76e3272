// out = x / sqrt(mean(x^2) + eps) * gain + bias, row by row. x, out [N, D].
//
// Moves N D floats in (from cache the second time) and out. A block a row: the order of the sum
// follows from D alone (RmsScale).
#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/reduce.cuh"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kThreads = 256;

struct Shared {
  float partial[kThreads / kWarp];
};

__global__ void __launch_bounds__(kThreads)
    RmsNormKernel(const float* x, const float* gain, const float* bias, int64_t width, float* out) {
  LetSuccessorBegin();
  WaitForPredecessor();
  const int64_t row = static_cast<int64_t>(blockIdx.x) * width;
  const float scale = RmsScale(x + row, width, BlockShared<Shared>().partial);
  for (int64_t i = threadIdx.x; i < width; i += kThreads) {
    float y = x[row + i] * scale;
    if (gain != nullptr) y *= gain[i];
    if (bias != nullptr) y += bias[i];
    out[row + i] = y;
  }
}

}  // namespace

absl::Status CudaRmsNorm(Device& device, const RmsNormArgs& args) {
  const int64_t rows = args.x.dim(0);
  if (rows == 0) return absl::OkStatus();
  return Launch("RmsNorm", device, {.blocks = rows, .threads = kThreads, .overlaps = true},
                RmsNormKernel, args.x.data, args.gain.data, args.bias.data, args.x.dim(1),
                args.out.data);
}

}  // namespace tvq::TVQ_CUDA
