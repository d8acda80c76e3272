// Keys that pages keep in both forms (kernels/ops/attention/kept_keys.h).
//
// First a block for each row and head puts both forms together, and writes keys to their pages.
// Then a block has a row, a query head and 128 of the distances in reach, one for each thread:
// threads beside one another read slots beside one another. A sum's order follows from K alone.
//
// A step beyond the context that a model was trained with reads 2 W K elements of keys per session
// and query head.
#include "kernels/cuda/common/kernel.cuh"
#include "kernels/cuda/softmax_attention/softmax_pages.cuh"
#include "kernels/numbers/bfloat16.h"
#include "kernels/ops/attention/kept_keys.h"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kThreads = 128;

struct Call {
  KeyValueShape shape;
  int64_t layer_offset;
  const KeyValuePages* sessions;  // null: all rows are of the session that has `pages`
  KeyValuePages pages;
  const int64_t* positions;
  int64_t longest_trained, heads, window;
  const float *q, *q_far, *k, *k_plain;
  float *page_q, *page_k, *position_scores;

  __device__ KeyValuePages PagesOf(int64_t n) const {
    return sessions == nullptr ? pages : sessions[n];
  }
  __device__ int64_t key() const { return shape.key / 2; }
};

template <typename T>
__global__ void __launch_bounds__(kThreads) PutTogetherKernel(Call call) {
  LetSuccessorBegin();
  WaitForPredecessor();
  const int64_t n = blockIdx.x, head = blockIdx.y, key = call.key(), width = call.shape.key;
  const KeyValuePages pages = call.PagesOf(n);
  if (pages.none()) return;
  const int64_t position = call.positions[n];
  if (head < call.heads) {
    const int64_t at = n * call.heads + head;
    const bool far = position >= call.longest_trained;
    const float* q = (far ? call.q_far : call.q) + at * key;
    float* out = call.page_q + at * width;
    for (int64_t i = threadIdx.x; i < width; i += kThreads) {
      out[i] = (i >= key) == far ? q[i % key] : 0;
    }
    return;
  }
  const int64_t g = head - call.heads, at = n * call.shape.kv_heads + g;
  T* slot = LayerPages<T>{call.shape, call.layer_offset, pages}.Key(g, position);
  for (int64_t i = threadIdx.x; i < width; i += kThreads) {
    const float number = (i < key ? call.k : call.k_plain)[at * key + i % key];
    call.page_k[at * width + i] = number;
    StoreAs(number, slot + i * kKeyPanel);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) RecentKernel(Call call) {
  LetSuccessorBegin();
  WaitForPredecessor();
  const int64_t row = blockIdx.x, n = row / call.heads, h = row % call.heads, key = call.key();
  const int64_t distance = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  const KeyValuePages pages = call.PagesOf(n);
  const int64_t position = pages.none() ? -1 : call.positions[n];
  if (distance >= call.window || distance > position) return;
  float sum = 0;
  if (position >= call.longest_trained) {
    const int64_t g = h / (call.heads / call.shape.kv_heads);
    const T* slot = LayerPages<T>{call.shape, call.layer_offset, pages}.Key(g, position - distance);
    const float* q = call.q + row * key;
    const float* q_far = call.q_far + row * key;
    for (int64_t i = 0; i < key; ++i) sum = fmaf(q[i], Widen(slot[i * kKeyPanel]), sum);
    for (int64_t i = 0; i < key; ++i) {
      sum = fmaf(-q_far[i], Widen(slot[(key + i) * kKeyPanel]), sum);
    }
  }
  call.position_scores[row * call.window + distance] = sum;
}

template <typename T>
absl::Status Run(Device& device, const Call& call, int64_t rows) {
  const absl::Status status = Launch("KeptKeys", device,
                                     {.blocks = rows,
                                      .blocks_y = call.heads + call.shape.kv_heads,
                                      .threads = kThreads,
                                      .overlaps = true},
                                     PutTogetherKernel<T>, call);
  if (!status.ok() || call.window == 0) return status;
  return Launch("RecentKeys", device,
                {.blocks = rows * call.heads,
                 .blocks_y = (call.window + kThreads - 1) / kThreads,
                 .threads = kThreads,
                 .overlaps = true},
                RecentKernel<T>, call);
}

}  // namespace

absl::Status CudaKeptKeys(Device& device, const KeptKeysArgs& args) {
  const int64_t rows = args.positions.size();
  if (rows == 0) return absl::OkStatus();
  const Call call{.shape = args.shape,
                  .layer_offset = args.layer_offset,
                  .sessions = args.sessions.data,
                  .pages = args.pages,
                  .positions = args.positions.data,
                  .longest_trained = args.longest_trained,
                  .heads = args.q.dim(1),
                  .window = args.position_scores.dim(2),
                  .q = args.q.data,
                  .q_far = args.q_far.data,
                  .k = args.k.data,
                  .k_plain = args.k_plain.data,
                  .page_q = args.page_q.data,
                  .page_k = args.page_k.data,
                  .position_scores = args.position_scores.data};
  return args.shape.dtype == DType::kFloat32 ? Run<float>(device, call, rows)
                                             : Run<BFloat16>(device, call, rows);
}

}  // namespace tvq::TVQ_CUDA
