// The gated delta rule (Yang et al. 2024, Gated Delta Networks) behind its projections and its
// convolution. Per head, by the recurrence of recurrence.h:
//
//   k = key / sqrt(|key|^2 + 1e-6)     q = query / sqrt(|query|^2 + 1e-6) * K^(-1/2)
//   alpha = exp(rate softplus(decay + decay_bias))     beta = sigmoid(strength)
//   w = alpha   a = k   b = alpha beta k   k = k   v = beta value
//   out = y / sqrt(mean(y^2) + epsilon) * gain * silu(z)
//
// Heads h share the query and the key of head h / (H / G).
#ifndef TVQ_KERNELS_OPS_RECURRENT_GATED_DELTA_RULE_H_
#define TVQ_KERNELS_OPS_RECURRENT_GATED_DELTA_RULE_H_

#include "kernels/device/tensor.h"
#include "kernels/ops/ops.h"
#include "kernels/ops/recurrent/recurrence.h"

namespace tvq {

inline constexpr float kDeltaNormEpsilon = 1e-6F;

struct GatedDeltaShape {
  int64_t key_heads = 0;  // G, divides H
  int64_t heads = 0;      // H
  int64_t key = 0;        // K
  int64_t value = 0;      // V

  constexpr int64_t convolved() const { return 2 * key_heads * key + heads * value; }
  // z [H, V], strength [H] and decay [H], which are behind the columns that are convolved.
  constexpr int64_t projected() const { return convolved() + heads * value + 2 * heads; }
};

struct GatedDeltaRuleArgs {
  RecurrentRows sessions;
  GatedDeltaShape shape;
  Matrix<const float> projected;         // [N, shape.projected()]
  Matrix<const float> convolved;         // [N, query G*K | key G*K | value H*V]
  Vector<const float> rate, decay_bias;  // [H]; rates are below 0
  Vector<const float> gain;              // [V]
  float epsilon = 0;
  Tensor<float, 3> out;  // [N, H, V]
};

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_RECURRENT_GATED_DELTA_RULE_H_
