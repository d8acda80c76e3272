// Scores of a ring of exact keys, and of the codes that stand for all keys that are older
// (docs/mathematics.md, Converted models), in the form that VQ attention takes
// (kernels/ops/attention/vq_attention.h): S codes, the last of them for position 0 alone, the sink.
//
//   code_score[n,h,j] = far[n,h,j] + bias[h]                 j < S - 1
//   code_score[n,h,S-1] = q_sink[n,h] . sink_key             the key of position 0
//   position_score[n,h,d] = q[n,h] . k_(i-d) - code_score[n,h,z_(i-d)]      d = 0..min(i, W-1)
//
// i the row's position, z codes of positions, k their keys as they are stored. Position scores of
// distances that there are not are not written. Both ops write the rows' keys to the state, the
// sink's with position 0, and nothing else of it: VQ attention takes codes and values. A row's bits
// depend on neither the other rows nor the op.
#ifndef TVQ_KERNELS_OPS_ATTENTION_RING_SCORES_H_
#define TVQ_KERNELS_OPS_ATTENTION_RING_SCORES_H_

#include "kernels/device/tensor.h"
#include "kernels/ops/attention/vq_attention.h"
#include "kernels/ops/ops.h"

namespace tvq {

// W is a multiple of so many positions.
inline constexpr int64_t kRingStep = 64;

// What the rows of both ops bring, and what is made of it. N rows.
struct RingRows {
  Vector<const float> bias;          // [H]
  Tensor<const float, 3> q;          // [N, H, K] turned by position, G divides H
  Tensor<const float, 3> q_sink;     // [N, H, K]
  Tensor<const float, 3> k;          // [N, G, K] turned by position
  Tensor<const float, 3> k_plain;    // [N, G, K] not turned
  Matrix<int32_t> codes;             // [N, G] in [0, S - 1); of position 0 they become S - 1
  Tensor<float, 3> code_scores;      // [N, H, S]: far, whose last are overwritten, and the result
  Tensor<float, 3> position_scores;  // [N, H, W] out
};

// One new position for each of N sessions, or consecutive ones of a state, one row behind the
// other, as for VqDecodeAttention, which must follow before the state is used again. Keeps the keys
// that it overwrites in VqState::undo. Nothing is written of a row whose state is none.
struct RingDecodeScoresArgs {
  VqShape shape;
  Vector<const VqState> states;     // [N]
  Vector<const int64_t> positions;  // [N]
  RingRows rows;
};

// N consecutive positions of one session, which its state does not have yet; VqPrefillAttention
// must follow.
struct RingPrefillScoresArgs {
  VqShape shape;
  VqState state;
  int64_t position = 0;  // of the first row
  RingRows rows;
};

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_ATTENTION_RING_SCORES_H_
