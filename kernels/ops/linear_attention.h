// Linear attention with a state of constant size (Katharopoulos et al. 2020, equations 9 to 12 and
// 16 to 20): softmax's exponential is replaced by a product of features, so that the past is a sum.
//
//   phi(x) = elu(x) + 1 = x + 1 where x > 0, e^x elsewhere
//   A_i = sum_{j<=i} phi(k_j) v_j^T   [K, V]     b_i = sum_{j<=i} phi(k_j)   [K]
//   o_i = phi(q_i)^T A_i / (phi(q_i) . b_i)      [V], an average of the v_j with weights above 0
//
// q, k and v are projections as they come: phi is computed here. Where every product of features is
// below the smallest float32, o_i is 0/0, NaN.
#ifndef TVQ_KERNELS_OPS_LINEAR_ATTENTION_H_
#define TVQ_KERNELS_OPS_LINEAR_ATTENTION_H_

#include "absl/status/status.h"
#include "kernels/device.h"
#include "kernels/tensor.h"

namespace tvq {

// One session's state in one layer, zero for a new session. G key/value heads, K keys, V values.
//
// A and b are unevaluated pairs of float32, sum + carry (Dekker's two-sum on every addition, exact
// to about 48 bits), so that they hold to 1e-6 of the mean term after 1e8 positions; attention
// reads `sum` alone.
struct LinearState {
  float* key_value_sum = nullptr;    // [G, K, V]   A
  float* key_value_carry = nullptr;  // [G, K, V]
  float* key_sum = nullptr;          // [G, K]      b
  float* key_carry = nullptr;        // [G, K]

  // Of nobody: all of it is null.
  constexpr bool none() const { return key_value_sum == nullptr; }
};

struct LinearShape {
  int64_t kv_heads = 0;  // G
  int64_t key = 0;       // K
  int64_t value = 0;     // V
};

// One new position for each of N sessions; no state twice. Adds phi(k) v^T and phi(k), then
// attends. A session's result does not depend on N. A row whose state is none fills up the batch:
// its row of `out` is zero.
//
// Bytes per session and key/value head: both halves of A are read and written, 16 K V.
struct LinearDecodeAttentionArgs {
  LinearShape shape;
  Vector<const LinearState> states;  // [N]
  Tensor<const float, 3> q;          // [N, H, K], G divides H
  Tensor<const float, 3> k;          // [N, G, K]
  Tensor<const float, 3> v;          // [N, G, V]
  Tensor<float, 3> out;              // [N, H, V]
};

absl::Status LinearDecodeAttention(Device& device, const LinearDecodeAttentionArgs& args);

// T consecutive positions of one session, block-parallel: a query attends to A and b as they stood
// when its block began, and to the positions of its block up to its own one by one. Blocks start at
// absolute multiples of kLinearPrefillBlock, so that chunk boundaries at such multiples do not
// change any bits. A position's bits depend on nothing that comes after it. State afterwards: as
// after T decode steps (additions in order of position, same bits).
//
// Per block and key/value head A is read and written once; 2 K V operations a query head and
// position for attention, about 11 K V a key/value head and position for the additions.
inline constexpr int64_t kLinearPrefillBlock = 64;

struct LinearPrefillAttentionArgs {
  LinearShape shape;
  LinearState state;
  int64_t position = 0;      // of the first row, from 0
  Tensor<const float, 3> q;  // [T, H, K], G divides H
  Tensor<const float, 3> k;  // [T, G, K]
  Tensor<const float, 3> v;  // [T, G, V]
  Tensor<float, 3> out;      // [T, H, V]
};

absl::Status LinearPrefillAttention(Device& device, const LinearPrefillAttentionArgs& args);

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_LINEAR_ATTENTION_H_
