// Appends up to kVqPrefillSpan positions to one session's state, in their order and without atomics
// on values.
//
// Every code that leaves the window within the span has blocks of its own. The first position with
// that code owns the row of U, and a chain leads from one position to the next with the same code.
// So a row's additions happen in order, as everywhere, and different rows are computed beside each
// other. A thread holds one column of the row and of its carry in registers along the chain. Then
// the span's values are written to the ring. Bytes per position and head: V values of the window or
// of the span in, V out; per code that retires 2 V floats in and out. Where the state has a read
// copy, its rows of these codes and slots are made anew.
#include "kernels/cuda/common/read_copy.cuh"
#include "kernels/cuda/vq_attention/vq_append.cuh"
#include "kernels/numbers/bfloat16.h"
#include "kernels/numbers/two_sum.h"
#include "kernels/ops/attention/vq_attention.h"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kCodeThreads = 256;
constexpr int kColumns = 128;  // of a block
constexpr int32_t kNone = -1;
static_assert(kVqPrefillSpan <= kCodeThreads);

// What position t of the span does to the accumulator.
struct Retiring {
  int32_t code;  // the code that leaves when t enters, if t is the first with it; else kNone
  int32_t next;  // position of the span that retires the same code, or kNone
};

// retiring [G, tokens]. Each key/value head has a block, each position a thread.
__global__ void __launch_bounds__(kCodeThreads)
    AppendCodesKernel(VqAppendSpan span, Retiring* retiring) {
  struct Shared {
    int32_t code[kCodeThreads];
  };
  int32_t* leaving_code = BlockShared<Shared>().code;
  const int64_t g = blockIdx.x, window = span.shape.window, kv_heads = span.shape.kv_heads;
  const int t = static_cast<int>(threadIdx.x), tokens = static_cast<int>(span.tokens);
  int32_t* ring = span.state.window_code + g * window;
  int32_t code = kNone;
  if (t < tokens) {
    const int64_t leaving = span.position + t - window;
    if (leaving >= span.position) {
      code = span.codes[(leaving - span.position) * kv_heads + g];
    } else if (leaving >= 0) {
      code = ring[leaving % window];
    }
  }
  leaving_code[t] = code;
  __syncthreads();
  if (t >= tokens) return;
  Retiring mine{code, kNone};
  if (code != kNone) {
    int32_t count = 0;
    for (int other = 0; other < tokens; ++other) {
      if (leaving_code[other] != code) continue;
      ++count;
      if (other < t) mine.code = kNone;
      if (other > t && mine.next == kNone) mine.next = other;
    }
    if (mine.code != kNone) span.state.count[g * span.shape.codes + code] += count;
  }
  retiring[g * tokens + t] = mine;
  // The ring holds the last `window` positions afterwards. All threads have read it by now.
  if (t + window >= tokens) ring[(span.position + t) % window] = span.codes[t * kv_heads + g];
}

// blockIdx.x counts the blocks of columns of the span's first position, then those of the next.
template <typename T>
__global__ void __launch_bounds__(kColumns)
    RetireKernel(VqAppendSpan span, const Retiring* retiring, int64_t column_blocks) {
  const int64_t values = span.shape.value, window = span.shape.window, g = blockIdx.y;
  const int64_t owner = static_cast<int64_t>(blockIdx.x) / column_blocks;
  const int64_t c = static_cast<int64_t>(blockIdx.x) % column_blocks * kColumns + threadIdx.x;
  retiring += g * span.tokens;
  const int32_t code = retiring[owner].code;
  if (code == kNone || c >= values) return;
  const T* ring = static_cast<const T*>(span.state.window_value) + g * window * values + c;
  const auto leaving_value = [&](int64_t t) {
    if (t < window) return Widen(ring[(span.position + t - window) % window * values]);
    T stored;
    StoreAs(span.v[((t - window) * span.shape.kv_heads + g) * values + c], &stored);
    return Widen(stored);
  };
  const int64_t at = (g * span.shape.codes + code) * values + c;
  float sum = span.state.sum[at], carry = span.state.carry[at];
  for (int64_t t = owner; t != kNone; t = retiring[t].next) {
    AddTwoSum(leaving_value(t), sum, carry);
  }
  span.state.sum[at] = sum;
  span.state.carry[at] = carry;
}

// Each of the span's last `window` positions has a block.
template <typename T>
__global__ void __launch_bounds__(kColumns) FillRingKernel(VqAppendSpan span, int64_t first) {
  const int64_t values = span.shape.value, window = span.shape.window, g = blockIdx.y;
  const int64_t t = first + blockIdx.x;
  T* slot = static_cast<T*>(span.state.window_value) +
            (g * window + (span.position + t) % window) * values;
  const float* v = span.v + (t * span.shape.kv_heads + g) * values;
  for (int64_t c = threadIdx.x; c < values; c += kColumns) StoreAs(v[c], slot + c);
}

// Updates the copy, position by position: the row that position t owns, and t's slot if t is one of
// the span's last `window`, from `first` on. A warp has the columns that share a scale.
constexpr int kCopyThreads = 128;
constexpr int64_t kCopyParts = kCopyThreads / kWarp;

template <typename T>
__global__ void __launch_bounds__(kCopyThreads)
    RefreshCopyKernel(VqAppendSpan span, const Retiring* retiring, int64_t first,
                      int64_t column_blocks) {
  const VqShape& shape = span.shape;
  const int64_t g = blockIdx.y, t = static_cast<int64_t>(blockIdx.x) / column_blocks;
  const int64_t part = static_cast<int64_t>(blockIdx.x) % column_blocks * kCopyParts + WarpId();
  if (part >= shape.scales()) return;
  if (const int32_t code = retiring[g * span.tokens + t].code; code != kNone) {
    const int64_t row = g * shape.codes + code;
    CopyMean(shape, span.state, row, span.state.count[row], part);
  }
  if (t >= first) {
    CopyRecent<T>(shape, span.state, g * shape.window + (span.position + t) % shape.window, part);
  }
}

template <typename T>
absl::Status RunValues(Device& device, const VqAppendSpan& span, const Retiring* retiring) {
  const int64_t kv_heads = span.shape.kv_heads;
  const int64_t column_blocks = (span.shape.value + kColumns - 1) / kColumns;
  absl::Status status =
      Launch("VqRetire", device,
             {.blocks = column_blocks * span.tokens, .blocks_y = kv_heads, .threads = kColumns},
             RetireKernel<T>, span, retiring, column_blocks);
  if (!status.ok()) return status;
  const int64_t kept = std::min(span.tokens, span.shape.window), first = span.tokens - kept;
  status = Launch("VqFillRing", device, {.blocks = kept, .blocks_y = kv_heads, .threads = kColumns},
                  FillRingKernel<T>, span, first);
  if (!status.ok() || span.shape.read == VqRead::kExact) return status;
  const int64_t copy_blocks = (span.shape.scales() + kCopyParts - 1) / kCopyParts;
  return Launch(
      "VqRefreshCopy", device,
      {.blocks = copy_blocks * span.tokens, .blocks_y = kv_heads, .threads = kCopyThreads},
      RefreshCopyKernel<T>, span, retiring, first, copy_blocks);
}

}  // namespace

absl::Status RunVqAppendSpan(Device& device, const VqAppendSpan& span) {
  const int64_t kv_heads = span.shape.kv_heads;
  absl::StatusOr<Retiring*> retiring = AsCuda(device).Scratch<Retiring>(0, span.tokens * kv_heads);
  if (!retiring.ok()) return retiring.status();
  const absl::Status status =
      Launch("VqAppendCodes", device, {.blocks = kv_heads, .threads = kCodeThreads},
             AppendCodesKernel, span, *retiring);
  if (!status.ok()) return status;
  return span.shape.value_dtype == DType::kFloat32 ? RunValues<float>(device, span, *retiring)
                                                   : RunValues<BFloat16>(device, span, *retiring);
}

}  // namespace tvq::TVQ_CUDA
