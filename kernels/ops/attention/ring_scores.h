// Scores of a ring of exact keys, and of the codes that stand for all keys that are older
// (docs/mathematics.md, Converted models), in the form that VQ attention takes
// (kernels/ops/attention/vq_attention.h): S codes, the last of them for position 0 alone, the sink.
//
//   code_score[n,h,j] = far[n,h,j] + bias[h]                 j < S - 1
//   code_score[n,h,S-1] = q_sink[n,h] . sink_key             the key of position 0
//   position_score[n,h,d] = q[n,h] . k_(i-d) - code_score[n,h,z_(i-d)]      d = 0..min(i, W-1)
//
// i is the row's position, z_p the code of position p, k_p its key as it is stored. Position scores
// of distances above i are not written. Both ops write the rows' keys to the state, and with
// position 0 the sink's key; they write nothing else, since VQ attention writes codes and values. A
// row's bits depend neither on the other rows nor on which op computes it.
#ifndef TVQ_KERNELS_OPS_ATTENTION_RING_SCORES_H_
#define TVQ_KERNELS_OPS_ATTENTION_RING_SCORES_H_

#include "kernels/device/tensor.h"
#include "kernels/ops/attention/vq_attention.h"
#include "kernels/ops/ops.h"

namespace tvq {

// W is a multiple of this many positions.
inline constexpr int64_t kRingStep = 64;

// What both ops take and give for N rows.
struct RingRows {
  Vector<const float> bias;          // [H]
  Tensor<const float, 3> q;          // [N, H, K] turned by position, G divides H
  Tensor<const float, 3> q_sink;     // [N, H, K]
  Tensor<const float, 3> k;          // [N, G, K] turned by position
  Tensor<const float, 3> k_plain;    // [N, G, K] not turned
  Matrix<int32_t> codes;             // [N, G] in [0, S - 1); those of position 0 are set to S - 1
  Tensor<float, 3> code_scores;      // [N, H, S] in: far, but the last column; out: result
  Tensor<float, 3> position_scores;  // [N, H, W] out
};

// One new position for each of N sessions, or several rows of one state as for VqDecodeAttention.
// That op must follow before the state is used again. The keys that are overwritten are kept in
// VqState::undo if there is one. Nothing is written for a row whose state is none.
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
