// log-probabilities of one row of logits, by all threads of a block of kRowThreads.
#ifndef TVQ_KERNELS_CUDA_TOKEN_LOGPROBS_ROW_LOGPROBS_CUH_
#define TVQ_KERNELS_CUDA_TOKEN_LOGPROBS_ROW_LOGPROBS_CUH_

#include "kernels/cuda/common/kernel.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/ops/token_logprobs.h"

namespace tvq::TVQ_CUDA {

constexpr int kRowThreads = 256;

// An entry of a row, and the order of entries: the larger value first, the lower id on a tie.
struct Entry {
  float value;
  int32_t id;
};
__device__ inline bool Before(const Entry& a, const Entry& b) {
  return a.value > b.value || (a.value == b.value && a.id < b.id);
}
struct First {
  __device__ Entry operator()(const Entry& a, const Entry& b) const { return Before(b, a) ? b : a; }
};

struct RowShared {
  float floats[kRowThreads / kWarp];
  double doubles[kRowThreads / kWarp];
  int32_t ints[kRowThreads / kWarp];
  Entry entries[kRowThreads / kWarp];
};

// What the log-probabilities of a row are computed from. Exponentials are summed in float64, which
// is exact up to their own rounding.
struct RowSoftmax {
  float largest;
  double log_sum;  // of exp(logit - largest)
  bool finite;     // no NaN, no +infinity, not all -infinity
};

__device__ inline RowSoftmax SoftmaxOf(const float* row, int64_t vocab, RowShared& shared) {
  float largest = -INFINITY;
  for (int64_t i = threadIdx.x; i < vocab; i += kRowThreads) largest = Max()(largest, row[i]);
  largest = BlockReduce(largest, shared.floats, Max());
  double sum = 0;
  for (int64_t i = threadIdx.x; i < vocab; i += kRowThreads) sum += expf(row[i] - largest);
  sum = BlockReduce(sum, shared.doubles, Add());
  return {largest, log(sum), isfinite(largest) && isfinite(sum)};
}

__device__ inline float Logprob(const RowSoftmax& softmax, float logit) {
  return static_cast<float>(static_cast<double>(logit) - softmax.largest - softmax.log_sum);
}

// The target's log-probability and rank; for every thread.
__device__ inline TokenLogprob LogprobOf(const float* row, int64_t vocab, int32_t target,
                                         const RowSoftmax& softmax, RowShared& shared) {
  const Entry entry{row[target], target};
  int32_t before = 0;
  for (int64_t i = threadIdx.x; i < vocab; i += kRowThreads) {
    before += Before({row[i], static_cast<int32_t>(i)}, entry) ? 1 : 0;
  }
  before = BlockReduce(before, shared.ints, Add());
  return {target, Logprob(softmax, entry.value), before + 1};
}

// The first `count` entries of the row, one after the other; written by thread 0.
__device__ inline void TopLogprobs(const float* row, int64_t vocab, int64_t count,
                                   const RowSoftmax& softmax, RowShared& shared,
                                   TokenLogprob* top) {
  Entry last{INFINITY, -1};
  for (int64_t k = 0; k < count; ++k) {
    // Every entry comes before this one.
    Entry best{-INFINITY, INT32_MAX};
    for (int64_t i = threadIdx.x; i < vocab; i += kRowThreads) {
      const Entry entry{row[i], static_cast<int32_t>(i)};
      if (Before(last, entry)) best = First()(best, entry);
    }
    last = BlockReduce(best, shared.entries, First());
    if (threadIdx.x == 0) {
      top[k] = {last.id, Logprob(softmax, last.value), static_cast<int32_t>(k + 1)};
    }
  }
}

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_TOKEN_LOGPROBS_ROW_LOGPROBS_CUH_
