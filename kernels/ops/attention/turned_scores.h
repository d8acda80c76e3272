// Scores of recent positions whose keys are turned by distance (ReRoPE), minus what the same
// positions would score beyond the reach, so that VQ attention can add them as position scores:
//
//   out[n,h,d] = q[n,h] . (Rot(d) - Rot(M)) C[g, z_(i-d)]     d = 0..M, i the row's position
//              = 0                                             where i < d
//
// g = h / (H/G), and z_p is the code of position p. Rot(d) turns entries c and K/2 + c of a key by
// an angle that depends on c and d. In row d of `turns` [W, K] the first half has the cosines of
// these angles minus those of the angles of distance M, and the second half the same of their sines
// (models/runtime has the angles).
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

// One new position for each of N sessions, which their states do not have yet; or several rows of
// one state as for VqDecodeAttention. A row of `out` whose state is none is 0.
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
