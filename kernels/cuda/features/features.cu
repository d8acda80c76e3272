// out = x + 1 where x > 0, e^x elsewhere (kernels/ops/attention/features.h). x, out [N, P, K]; out
// may be x.
//
// Moves N P K floats in and out, one by each thread. There are no kernels for the other maps of
// features.
#include "kernels/cuda/common/kernel.cuh"
#include "kernels/ops/attention/features.h"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    EluPlusOneKernel(const float* x, int64_t elements, float* out) {
  LetSuccessorBegin();
  WaitForPredecessor();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= elements) return;
  const float value = x[i];
  out[i] = value > 0 ? value + 1 : expf(value);
}

}  // namespace

absl::Status CudaFeatures(Device& device, const FeaturesArgs& args) {
  if (args.map != FeatureMap::kEluPlusOne) {
    return absl::UnimplementedError(absl::StrCat(
        "Features: the backend 'cuda' computes elu + 1, not ",
        args.map == FeatureMap::kSoftAssignment ? "soft assignment" : "positive random features"));
  }
  const int64_t elements = args.x.size();
  if (elements == 0) return absl::OkStatus();
  return Launch(
      "EluPlusOne", device,
      {.blocks = (elements + kThreads - 1) / kThreads, .threads = kThreads, .overlaps = true},
      EluPlusOneKernel, args.x.data, elements, args.out.data);
}

}  // namespace tvq::TVQ_CUDA
