// One position enters each of N sessions' states.
//
//   n[z] += 1, U[z] += v of the position that leaves the window, z its code; then the new position
//   takes its slot
//
// Codes first, a block for 64 sessions and a key/value head; then a thread a column, which reads
// and writes one element of U, of its carry and of the window. Bytes per session and head: 3 V
// floats (or values of the window), in and out.
#include "kernels/bfloat16.h"
#include "kernels/cuda/vq_append.cuh"
#include "kernels/two_sum.h"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kSessions = 64;  // of a block
constexpr int kColumns = 128;  // of a block
constexpr int32_t kNoCode = -1;

// retired [sessions, G]: the code of the position that leaves, or kNoCode.
__global__ void __launch_bounds__(kSessions)
    AppendStepCodesKernel(VqAppendStep step, int32_t* retired) {
  const int64_t n = static_cast<int64_t>(blockIdx.x) * kSessions + threadIdx.x, g = blockIdx.y;
  if (n >= step.sessions || step.states[n].none()) return;
  const VqState& state = step.states[n];
  const int64_t window = step.shape.window, row = n * step.shape.kv_heads + g;
  const int64_t position = step.positions[n];
  int32_t& slot = state.window_code[g * window + position % window];
  retired[row] = kNoCode;
  if (position >= window) {
    retired[row] = slot;
    ++state.count[g * step.shape.codes + slot];
  }
  slot = step.codes[row];
}

template <typename T>
__global__ void __launch_bounds__(kColumns)
    AppendStepValuesKernel(VqAppendStep step, const int32_t* retired) {
  const int64_t values = step.shape.value, window = step.shape.window;
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  const int64_t g = blockIdx.y % step.shape.kv_heads, n = blockIdx.y / step.shape.kv_heads;
  if (c >= values || step.states[n].none()) return;
  const VqState& state = step.states[n];
  const int64_t row = n * step.shape.kv_heads + g;
  T& slot =
      static_cast<T*>(state.window_value)[(g * window + step.positions[n] % window) * values + c];
  if (const int32_t code = retired[row]; code != kNoCode) {
    const int64_t at = (g * step.shape.codes + code) * values + c;
    AddTwoSum(Widen(slot), state.sum[at], state.carry[at]);
  }
  StoreAs(step.v[row * values + c], &slot);
}

}  // namespace

absl::Status RunVqAppendStep(Device& device, const VqAppendStep& step) {
  const int64_t kv_heads = step.shape.kv_heads;
  if (step.sessions == 0) return absl::OkStatus();
  absl::StatusOr<int32_t*> retired = AsCuda(device).Scratch<int32_t>(0, step.sessions * kv_heads);
  if (!retired.ok()) return retired.status();
  const absl::Status status = Launch("VqAppendCodes", device,
                                     {.blocks = (step.sessions + kSessions - 1) / kSessions,
                                      .blocks_y = kv_heads,
                                      .threads = kSessions},
                                     AppendStepCodesKernel, step, *retired);
  if (!status.ok()) return status;
  const LaunchShape shape{.blocks = (step.shape.value + kColumns - 1) / kColumns,
                          .blocks_y = kv_heads * step.sessions,
                          .threads = kColumns};
  return step.shape.value_dtype == DType::kFloat32
             ? Launch("VqAppendValues", device, shape, AppendStepValuesKernel<float>, step,
                      *retired)
             : Launch("VqAppendValues", device, shape, AppendStepValuesKernel<BFloat16>, step,
                      *retired);
}

}  // namespace tvq::TVQ_CUDA
