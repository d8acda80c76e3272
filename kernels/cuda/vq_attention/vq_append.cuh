// Appends positions of a prompt to a session's state (kernels/ops/attention/vq_attention.h). Decode
// does so in its own way (vq_decode_attention.cu), by the same additions in the same order.
#ifndef TVQ_KERNELS_CUDA_VQ_ATTENTION_VQ_APPEND_CUH_
#define TVQ_KERNELS_CUDA_VQ_ATTENTION_VQ_APPEND_CUH_

#include "kernels/cuda/common/kernel.cuh"
#include "kernels/ops/attention/vq_attention.h"

namespace tvq::TVQ_CUDA {

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

#endif  // TVQ_KERNELS_CUDA_VQ_ATTENTION_VQ_APPEND_CUH_
