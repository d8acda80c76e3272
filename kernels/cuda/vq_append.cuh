// Positions enter sessions' states (kernels/ops/vq_attention.h): the part that decode, prefill and
// append share.
#ifndef TVQ_KERNELS_CUDA_VQ_APPEND_CUH_
#define TVQ_KERNELS_CUDA_VQ_APPEND_CUH_

#include "kernels/bfloat16.h"
#include "kernels/cuda/kernel.cuh"

namespace tvq::TVQ_CUDA {

// `tokens` positions follow one another in each of `sessions` sessions. Row n * tokens + t of codes
// [rows, G] and v [rows, G, V] is position Position(n) + t of session n.
struct VqAppendRun {
  VqShape shape;
  const VqState* states = nullptr;  // [sessions], device memory; or null and `state`
  VqState state;
  const int64_t* positions = nullptr;  // [sessions], device memory; or null and `position`
  int64_t position = 0;
  int64_t sessions = 0;
  int64_t tokens = 0;
  const int32_t* codes = nullptr;
  const float* v = nullptr;

  __device__ const VqState& State(int64_t n) const { return states == nullptr ? state : states[n]; }
  __device__ int64_t Position(int64_t n) const {
    return positions == nullptr ? position : positions[n];
  }
};

// Retires and appends. Uses the device's scratch slot 0.
absl::Status RunVqAppend(Device& device, const VqAppendRun& run);

__device__ inline float WindowValue(const VqShape& shape, const VqState& state, int64_t index) {
  return shape.value_dtype == DType::kFloat32
             ? static_cast<const float*>(state.window_value)[index]
             : ToFloat(static_cast<const BFloat16*>(state.window_value)[index]);
}

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_VQ_APPEND_CUH_
