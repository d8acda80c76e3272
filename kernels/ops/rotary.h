// Rotary positions (Su et al. 2021, RoFormer, section 3.4): numbers i and i + R/2 of a query or key
// are turned together by the angle position * frequency_i, for i < R/2; those from R on stay as
// they are. The scores of what was turned depend on distances alone.
#ifndef TVQ_KERNELS_OPS_ROTARY_H_
#define TVQ_KERNELS_OPS_ROTARY_H_

#include "kernels/device/tensor.h"
#include "kernels/ops/norm_rows.h"
#include "kernels/ops/ops.h"

namespace tvq {

// out[n] = cos(a_0), ..., cos(a_(R/2-1)), sin(a_0), ..., sin(a_(R/2-1)), a_i = positions[n] *
// frequencies[i]. The product is rounded to float32, since models are trained with it so and
// defined by it: at position 8,000 that turns a pair by up to 0.0002 more or less. Of what is left
// the functions are exact but for the last rounding.
struct RotaryAnglesArgs {
  Vector<const int64_t> positions;  // [N]
  Vector<const float> frequencies;  // [R/2], per position
  Matrix<float> out;                // [N, R]
};

// What a layer projected becomes queries, keys and values. Per head x [K] of q and k:
//
//   x' = x / sqrt(mean(x^2) + epsilon) * gain          where there is a gain, else x
//   y  = x' turned by the row's angles                 q = scale * y,  k = y,  v as it is
struct RotaryHeadsArgs {
  Matrix<const float> projected;    // [N, H*K + G*K + G*V]: q, k, v
  Vector<const float> q_gain;       // [K] or empty
  Vector<const float> k_gain;       // [K] or empty
  float epsilon = kRmsNormEpsilon;  // of the norm of heads
  float scale = 1;
  Matrix<const float> angles;  // [N, R], as RotaryAngles has them; R is even, 0 to K
  Tensor<float, 3> q;          // [N, H, K]
  Tensor<float, 3> k;          // [N, G, K]
  Tensor<float, 3> v;          // [N, G, V]
};

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_ROTARY_H_
