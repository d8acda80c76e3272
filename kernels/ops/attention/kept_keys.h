// Queries and keys of heads that keep all their keys (docs/mathematics.md, Converted models). Such
// keys are kept in two forms: turned by their position, for the scores of recent keys, and plain,
// for the scores of far keys where the context is longer than any that the model was trained with.
// The results are in the form that softmax attention takes
// (kernels/ops/attention/softmax_attention.h), with keys of 2 K numbers:
//
//   page_k_u           = [turned k_u, plain k_u]
//   page_q_i           = [q_i, 0]          i < L, the longest trained with
//                      = [0, q_far_i]      i >= L
//   position_score_i,d = 0                                             i < L
//                      = q_i . turned k_(i-d) - q_far_i . plain k_(i-d)    i >= L, d = 0..W-1
//
// Attention adds the position score to the product of page_q and page_k, so that a score is that of
// one form or of the other. Earlier keys are read from the pages. The rows' own keys are written to
// the pages; attention writes them again, together with their values.
#ifndef TVQ_KERNELS_OPS_ATTENTION_KEPT_KEYS_H_
#define TVQ_KERNELS_OPS_ATTENTION_KEPT_KEYS_H_

#include "kernels/device/tensor.h"
#include "kernels/ops/attention/softmax_attention.h"
#include "kernels/ops/ops.h"

namespace tvq {

// N rows. In decode each row has a session of its own, or several rows have the same one, as for
// SoftmaxDecodeAttention. In prefill they are consecutive positions of one session, with the same
// pages. Nothing is written for a row whose pages are none. A row's bits do not depend on the
// others.
struct KeptKeysArgs {
  KeyValueShape shape;                   // keys of 2 K
  int64_t layer_offset = 0;              // bytes from a page's start to the layer's keys
  Vector<const KeyValuePages> sessions;  // [N] in decode, else empty
  KeyValuePages pages;                   // in prefill
  Vector<const int64_t> positions;       // [N]
  int64_t longest_trained = 0;           // L
  Tensor<const float, 3> q;              // [N, H, K] turned by position, G divides H
  Tensor<const float, 3> q_far;          // [N, H, K]
  Tensor<const float, 3> k;              // [N, G, K] turned by position
  Tensor<const float, 3> k_plain;        // [N, G, K]
  Tensor<float, 3> page_q;               // [N, H, 2 K] out
  Tensor<float, 3> page_k;               // [N, G, 2 K] out
  Tensor<float, 3> position_scores;      // [N, H, W] out; any value at distances before position 0
};

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_ATTENTION_KEPT_KEYS_H_
