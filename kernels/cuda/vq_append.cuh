// Positions enter sessions' states (kernels/ops/vq_attention.h): the part that decode, prefill and
// append share.
#ifndef TVQ_KERNELS_CUDA_VQ_APPEND_CUH_
#define TVQ_KERNELS_CUDA_VQ_APPEND_CUH_

#include "kernels/cuda/kernel.cuh"

namespace tvq::TVQ_CUDA {

// Retires and appends one position of each of `sessions` sessions: row n of codes [N, G] and v
// [N, G, V]. Uses the device's scratch slot 0.
struct VqAppendStep {
  VqShape shape;
  const VqState* states = nullptr;     // [sessions], device memory
  const int64_t* positions = nullptr;  // [sessions], device memory
  int64_t sessions = 0;
  const int32_t* codes = nullptr;
  const float* v = nullptr;
};
absl::Status RunVqAppendStep(Device& device, const VqAppendStep& step);

// Retires and appends up to kVqPrefillSpan positions of one session, the first of them `position`:
// codes [T, G], v [T, G, V]. Uses the device's scratch slot 0.
struct VqAppendSpan {
  VqShape shape;
  VqState state;
  int64_t position = 0;
  int64_t tokens = 0;
  const int32_t* codes = nullptr;
  const float* v = nullptr;
};
absl::Status RunVqAppendSpan(Device& device, const VqAppendSpan& span);

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_VQ_APPEND_CUH_
