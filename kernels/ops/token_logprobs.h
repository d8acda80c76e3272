// log p(target) under softmax(logits), the target's rank, and the most likely alternatives.
#ifndef TVQ_KERNELS_OPS_TOKEN_LOGPROBS_H_
#define TVQ_KERNELS_OPS_TOKEN_LOGPROBS_H_

#include <span>

#include "kernels/device/tensor.h"
#include "kernels/ops/ops.h"

namespace tvq {

struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0;
  int32_t rank = 0;  // 1 is the most likely; ties count in favour of the lower id
};

// INTERNAL, naming the row, when a row's logits are not finite (NaN, or all infinite).
struct TokenLogprobsArgs {
  Matrix<const float> logits;          // [N, vocab]
  std::span<const int32_t> targets;    // [N]
  int64_t top = 0;                     // alternatives per row, best first
  std::span<TokenLogprob> target_out;  // [N], host memory
  std::span<TokenLogprob> top_out;     // [N * top], host memory
};

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_TOKEN_LOGPROBS_H_
