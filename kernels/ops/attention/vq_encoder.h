// Attention over quantized keys in both directions (docs/mathematics.md): a text's values are
// collected by code first, then each of its queries attends to the codes.
//
//   U[s] = sum of v_j with z_j = s      n[s] = how many                       over the whole text
//   o_i  = sum_s exp(score_i[s]) U[s] / sum_s exp(score_i[s]) n[s]
//
// which is softmax attention to every position by the scores of their codes, in linear time.
#ifndef TVQ_KERNELS_OPS_ATTENTION_VQ_ENCODER_H_
#define TVQ_KERNELS_OPS_ATTENTION_VQ_ENCODER_H_

#include "kernels/device/tensor.h"
#include "kernels/ops/ops.h"

namespace tvq {

// The sums of one text in one layer, zero before the first position. G key/value heads, S codes, V
// values. U is an unevaluated pair of float32 (Knuth's two-sum on every addition); attention reads
// `sum` alone.
struct CodeSums {
  float* sum = nullptr;      // [G, S, V]   U
  float* carry = nullptr;    // [G, S, V]
  int64_t* count = nullptr;  // [G, S]      n
};

struct CodeSumsShape {
  int64_t kv_heads = 0;  // G
  int64_t codes = 0;     // S
  int64_t value = 0;     // V
};

// Adds T positions, in their order: however a text is cut, the sums have the same bits.
struct VqCollectArgs {
  CodeSumsShape shape;
  CodeSums sums;
  Matrix<const int32_t> codes;  // [T, G]
  Tensor<const float, 3> v;     // [T, G, V]
};

// T queries; a query's bits depend on itself and the sums alone. The sums must hold at least one
// position. One maximum is subtracted over the codes with n[s] > 0. 2 S V operations a query head.
struct VqEncoderAttentionArgs {
  CodeSumsShape shape;
  CodeSums sums;
  Tensor<const float, 3> code_scores;  // [T, H, S], G divides H
  Tensor<float, 3> out;                // [T, H, V]
};

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_ATTENTION_VQ_ENCODER_H_
