// Scores of recent positions whose keys are turned by distance (ReRoPE), less what the same
// positions score beyond the reach, so that VQ attention can add them as position scores:
//
//   out[n,h,d] = q[n,h] . (Rot(d) - Rot(M)) C[g, z_(i-d)]     d = 0..M, i the row's position
//              = 0                                             where i < d
//
// g = h / (H/G), z codes of positions. Rot(d) turns entries c and K/2 + c of a key by an angle of
// their own for each distance; `turns` [W, K] has cos - cos(M) of these angles in the first half of
// a row and sin - sin(M) in the second (models/runtime has the angles).
//
// A row's order of sums depends on K alone.
#ifndef TVQ_KERNELS_OPS_ATTENTION_TURNED_SCORES_H_
#define TVQ_KERNELS_OPS_ATTENTION_TURNED_SCORES_H_

#include "kernels/device/tensor.h"
#include "kernels/ops/attention/vq_attention.h"
#include "kernels/ops/ops.h"

namespace tvq {

// What both ops read. G, W and S are those of the states' shape; G divides H; K is even.
struct TurnedKeys {
  VqShape shape;
  Tensor<const float, 3> codebook;  // [G, S, K], row-major
  Matrix<const float> turns;        // [W, K]
};

// One new position for each of N sessions, which their states do not have yet; or consecutive ones
// of a state, one row behind the other, as for VqDecodeAttention. A row whose state is none is 0.
struct TurnedDecodeScoresArgs {
  TurnedKeys keys;
  Vector<const VqState> states;     // [N]
  Vector<const int64_t> positions;  // [N]
  Tensor<const float, 3> q;         // [N, H, K]
  Matrix<const int32_t> codes;      // [N, G] of the new positions
  Tensor<float, 3> out;             // [N, H, W]
};

// T consecutive positions of one session, which its state does not have yet.
struct TurnedPrefillScoresArgs {
  TurnedKeys keys;
  VqState state;
  int64_t position = 0;         // of the first row
  Tensor<const float, 3> q;     // [T, H, K]
  Matrix<const int32_t> codes;  // [T, G]
  Tensor<float, 3> out;         // [T, H, W]
};

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_ATTENTION_TURNED_SCORES_H_
