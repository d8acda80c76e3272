// The time mixing of RWKV-7 behind its projections (Peng et al. 2025). Per head of K channels, of
// the rows r, k, v, decay, rate and gate, by the recurrence of recurrence.h with V = K:
//
//   v' = v + (v_first - v) * v_mix       v' = v where v_first is empty
//   k^ = k * k_k / max(|k * k_k|, 1e-12)
//   w = exp(-e^(-1/2) decay)   a = k^   b = k^ * rate   k' = k * (1 + (rate - 1) * k_a)   q = r
//   out = ((y - mean(y)) / sqrt(var(y) + epsilon) * gain + bias + (r . (k' * r_k)) v') * gate
//
// where the recurrence takes k' and v'. decay, rate and v_mix are between 0 and 1.
#ifndef TVQ_KERNELS_OPS_RECURRENT_RWKV_TIME_MIX_H_
#define TVQ_KERNELS_OPS_RECURRENT_RWKV_TIME_MIX_H_

#include "kernels/device/tensor.h"
#include "kernels/ops/ops.h"
#include "kernels/ops/recurrent/recurrence.h"

namespace tvq {

inline constexpr float kRwkvDecayScale = -0.60653066F;  // -e^(-1/2)
inline constexpr float kRwkvLeastNorm = 1e-12F;

struct RwkvTimeMixArgs {
  RecurrentRows sessions;
  Tensor<const float, 3> r, k, v;         // [N, H, K]
  Tensor<const float, 3> decay;           // [N, H, K]
  Tensor<const float, 3> rate;            // [N, H, K]
  Tensor<const float, 3> gate;            // [N, H, K]
  Tensor<const float, 3> v_first, v_mix;  // [N, H, K], both or neither
  Matrix<const float> k_k, k_a, r_k;      // [H, K]
  Matrix<const float> gain, bias;         // [H, K]
  float epsilon = 0;
  Tensor<float, 3> out;  // [N, H, K]
};

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_RECURRENT_RWKV_TIME_MIX_H_
