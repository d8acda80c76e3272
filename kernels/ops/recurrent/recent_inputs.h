// Functions of a row and of the few rows of its session before it.
#ifndef TVQ_KERNELS_OPS_RECURRENT_RECENT_INPUTS_H_
#define TVQ_KERNELS_OPS_RECURRENT_RECENT_INPUTS_H_

#include "kernels/device/tensor.h"
#include "kernels/ops/ops.h"
#include "kernels/ops/recurrent/recurrence.h"

namespace tvq {

// The token shift of RWKV (Peng et al. 2023), for M mixtures at once:
//
//   out[m, n] = x_n + (x_(n-1) - x_n) * mix[m]
//
// where x_(n-1) is the row before of the same session, zero ahead of its first. inputs [1, D].
struct TokenShiftArgs {
  RecurrentRows sessions;
  Matrix<const float> x;    // [N, D]
  Matrix<const float> mix;  // [M, D]
  Tensor<float, 3> out;     // [M, N, D]
};

// A causal convolution of each of C channels, then silu:
//
//   out[n, c] = silu(bias[c] + sum_(j<W) weight[j, c] x_(n-W+1+j)[first + c])
//
// where rows ahead of a session's first are zero. W is 2 or more. inputs [W-1, C].
struct CausalConvolutionArgs {
  RecurrentRows sessions;
  Matrix<const float> x;       // [N, P], first + C <= P
  int64_t first = 0;           // the first channel's column of x
  Matrix<const float> weight;  // [W, C]
  Vector<const float> bias;    // [C] or empty
  Matrix<float> out;           // [N, C]
};

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_RECURRENT_RECENT_INPUTS_H_
