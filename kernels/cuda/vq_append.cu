// Retires and appends positions in their order, without atomics on values.
//
// Codes first: a block a session and key/value head finds which code leaves the window at every
// position, counts it (integers: any order gives the same) and writes the new codes. Then values: a
// thread owns one column of one session and head and walks through the positions, so that a row's
// additions happen in order, as everywhere; per position it reads and writes one element of U, of
// its carry and of the window. Bytes per position and head: 3 V floats of U, carry and window, each
// in and out.
#include "kernels/cuda/vq_append.cuh"
#include "kernels/two_sum.h"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kCodeThreads = 64;
constexpr int kColumns = 128;  // of a block
constexpr int32_t kNoCode = -1;

// retired [sessions * tokens, G]: the code that position leaves behind, or kNoCode.
__global__ void __launch_bounds__(kCodeThreads)
    AppendCodesKernel(VqAppendRun run, int32_t* retired) {
  const int64_t g = blockIdx.x, n = blockIdx.y;
  const int64_t window = run.shape.window, kv_heads = run.shape.kv_heads;
  const VqState& state = run.State(n);
  if (state.none()) return;
  const int64_t first = run.Position(n), tokens = run.tokens;
  int32_t* codes = state.window_code + g * window;
  const auto row = [&](int64_t t) { return (n * tokens + t) * kv_heads + g; };

  for (int64_t t = threadIdx.x; t < tokens; t += kCodeThreads) {
    const int64_t leaving = first + t - window;
    int32_t code = kNoCode;
    if (leaving >= 0)
      code = leaving >= first ? run.codes[row(leaving - first)] : codes[leaving % window];
    retired[row(t)] = code;
    if (code == kNoCode) continue;
    auto* count = reinterpret_cast<unsigned long long*>(state.count + g * run.shape.codes + code);
    atomicAdd(count, 1ULL);
  }
  __syncthreads();
  // The last `window` positions are what the ring holds afterwards.
  for (int64_t t = threadIdx.x; t < tokens; t += kCodeThreads) {
    if (t + window >= tokens) codes[(first + t) % window] = run.codes[row(t)];
  }
}

template <typename T>
__global__ void __launch_bounds__(kColumns)
    AppendValuesKernel(VqAppendRun run, const int32_t* retired) {
  const int64_t values = run.shape.value, window = run.shape.window, kv_heads = run.shape.kv_heads;
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  const int64_t g = blockIdx.y % kv_heads, n = blockIdx.y / kv_heads;
  if (c >= values) return;
  const VqState& state = run.State(n);
  if (state.none()) return;
  const int64_t first = run.Position(n);
  T* ring = static_cast<T*>(state.window_value) + g * window * values + c;
  const int64_t head = g * run.shape.codes * values + c;
  for (int64_t t = 0; t < run.tokens; ++t) {
    const int64_t row = (n * run.tokens + t) * kv_heads + g;
    T& slot = ring[(first + t) % window * values];
    if (const int32_t code = retired[row]; code != kNoCode) {
      AddTwoSum(Widen(slot), state.sum[head + code * values], state.carry[head + code * values]);
    }
    StoreAs(run.v[row * values + c], &slot);
  }
}

}  // namespace

absl::Status RunVqAppend(Device& device, const VqAppendRun& run) {
  const int64_t kv_heads = run.shape.kv_heads, rows = run.sessions * run.tokens;
  if (rows == 0) return absl::OkStatus();
  absl::StatusOr<int32_t*> retired = AsCuda(device).Scratch<int32_t>(0, rows * kv_heads);
  if (!retired.ok()) return retired.status();
  const absl::Status status =
      Launch("VqAppendCodes", device,
             {.blocks = kv_heads, .blocks_y = run.sessions, .threads = kCodeThreads},
             AppendCodesKernel, run, *retired);
  if (!status.ok()) return status;
  const LaunchShape shape{.blocks = (run.shape.value + kColumns - 1) / kColumns,
                          .blocks_y = kv_heads * run.sessions,
                          .threads = kColumns};
  return run.shape.value_dtype == DType::kFloat32
             ? Launch("VqAppendValues", device, shape, AppendValuesKernel<float>, run, *retired)
             : Launch("VqAppendValues", device, shape, AppendValuesKernel<BFloat16>, run, *retired);
}

absl::Status CudaVqAppend(Device& device, const VqAppendArgs& args) {
  return RunVqAppend(device, {.shape = args.shape,
                              .state = args.state,
                              .position = args.position,
                              .sessions = 1,
                              .tokens = args.codes.dim(0),
                              .codes = args.codes.data,
                              .v = args.v.data});
}

}  // namespace tvq::TVQ_CUDA
