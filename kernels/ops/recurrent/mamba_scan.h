// The selective scan of Mamba-2 (Dao, Gu 2024) behind its projection and its convolution. Per head,
// of x [V], B [K] and C [K], by the recurrence of recurrence.h:
//
//   dt = min(max(softplus(step + step_bias), least_step), most_step)
//   w = exp(dt rate)   a = b = 0   k = B   v = dt x   q = C
//   out = (y + skip x) * silu(z)
//
// Heads h share B and C of group h / (H / G).
#ifndef TVQ_KERNELS_OPS_RECURRENT_MAMBA_SCAN_H_
#define TVQ_KERNELS_OPS_RECURRENT_MAMBA_SCAN_H_

#include "kernels/device/tensor.h"
#include "kernels/ops/ops.h"
#include "kernels/ops/recurrent/recurrence.h"

namespace tvq {

struct MambaShape {
  int64_t groups = 0;  // G, divides H
  int64_t heads = 0;   // H
  int64_t key = 0;     // K, numbers of a head's state for each value
  int64_t value = 0;   // V

  constexpr int64_t inner() const { return heads * value; }
  constexpr int64_t convolved() const { return inner() + 2 * groups * key; }
  // z [H, V], then what is convolved, then step [H].
  constexpr int64_t projected() const { return inner() + convolved() + heads; }
};

struct MambaScanArgs {
  RecurrentRows sessions;
  MambaShape shape;
  Matrix<const float> projected;              // [N, shape.projected()]
  Matrix<const float> convolved;              // [N, x H*V | B G*K | C G*K]
  Vector<const float> rate, step_bias, skip;  // [H]; rates are below 0
  float least_step = 0, most_step = 0;        // may be infinite
  Tensor<float, 3> out;                       // [N, H, V]
};

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_RECURRENT_MAMBA_SCAN_H_
