// Rotary positions (Su et al. 2021, RoFormer, section 3.4): numbers i and i + R/2 of a query or key
// are turned together by the angle position * frequency_i, for i < R/2; numbers from R on stay as
// they are. The scores of turned queries and keys depend on positions by their distance alone.
#ifndef TVQ_KERNELS_OPS_ROTARY_H_
#define TVQ_KERNELS_OPS_ROTARY_H_

#include "kernels/device/tensor.h"
#include "kernels/ops/norm_rows.h"
#include "kernels/ops/ops.h"

namespace tvq {

// out[n] = cos(a_0), ..., cos(a_(R/2-1)), sin(a_0), ..., sin(a_(R/2-1)), a_i = positions[n] *
// frequencies[i]. The product is rounded to float32, since models are trained with, and defined by,
// the rounded product: it is off by up to 0.0002 at position 8,000, and by 0.5 at 10 million. The
// cosine and sine of the rounded product are exact but for their last rounding.
struct RotaryAnglesArgs {
  Vector<const int64_t> positions;  // [N]
  Vector<const float> frequencies;  // [R/2], per position
  Matrix<float> out;                // [N, R]
  bool exact = false;               // true: the product is not rounded
};

// out[n] = table[positions[n] - first]. A position ahead of the table gets its first row, one
// behind it its last.
struct PositionRowsArgs {
  Vector<const int64_t> positions;  // [N]
  int64_t first = 0;
  Matrix<const float> table;  // [rows, R]
  Matrix<float> out;          // [N, R]
};

// Makes queries, keys and values of what a layer projected. Per head x [K] of q and k:
//
//   x' = x / sqrt(mean(x^2) + epsilon) * gain          where there is a gain, else x
//   y  = x' turned by the row's angles                 q = scale * y,  k = y,  v as it is
//
// Layers that score far keys in another way (kernels/ops/attention/ring_scores.h, kept_keys.h) also
// need other forms of x': `q_far`, queries turned by `far_angles`, which may change lengths, too,
// and `k_plain`, keys that are not turned. Some of these layers also need `q_sink`, queries turned
// by `sink_angles`, the same angles in all rows. For other layers these are empty.
struct RotaryHeadsArgs {
  Matrix<const float> projected;  // [N, columns]: from `column` on H*K of q, G*K of k, G*V of v
  int64_t column = 0;
  Vector<const float> q_gain;       // [K] or empty
  Vector<const float> k_gain;       // [K] or empty
  float epsilon = kRmsNormEpsilon;  // of the norm of heads
  float scale = 1;
  Matrix<const float> angles;  // [N, R], as RotaryAngles has them; R is even, 0 to K
  Tensor<float, 3> q;          // [N, H, K]
  Tensor<float, 3> k;          // [N, G, K]
  Tensor<float, 3> v;          // [N, G, V]

  Matrix<const float> far_angles;   // [N, R]
  Vector<const float> sink_angles;  // [R]
  Tensor<float, 3> q_far;           // [N, H, K], times scale
  Tensor<float, 3> q_sink;          // [N, H, K], times scale
  Tensor<float, 3> k_plain;         // [N, G, K]
};

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_ROTARY_H_
