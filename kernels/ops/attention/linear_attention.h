// Linear attention with a state of constant size (Katharopoulos et al. 2020, equations 9 to 12 and
// 16 to 20): softmax's exponential is replaced by a product of features, so that the past is a sum.
//
//   A_i = sum_{j<=i} k_j v_j^T   [F, V]     b_i = sum_{j<=i} k_j   [F]
//   o_i = q_i^T A_i / (q_i . b_i)           [V], an average of the v_j with weights q_i . k_j
//
// q and k are features, none below 0 (ops/attention/features.h). With `query_exponents`, q holds
// the exponents of a query's features: feature s is e^(q_s - m), where m is the largest q_s among
// the features that keys up to this position have reached (b_s >= kLeastReached). The common factor
// e^-m cancels. Features that no key has reached are 0, and their q_s does not count for m, however
// large it is.
//
// If every product of features is below the smallest float32, o_i is 0/0, which is NaN. With
// `query_exponents` that is so if no feature is reached.
#ifndef TVQ_KERNELS_OPS_ATTENTION_LINEAR_ATTENTION_H_
#define TVQ_KERNELS_OPS_ATTENTION_LINEAR_ATTENTION_H_

#include <limits>

#include "kernels/device/tensor.h"
#include "kernels/ops/ops.h"

namespace tvq {

// Numbers below this are subnormal in float32, and so are products with them: too imprecise for a
// weight.
inline constexpr float kLeastReached = std::numeric_limits<float>::min();

// One session's state in one layer, zero for a new session. G key/value heads, F features, V
// values.
//
// A and b are unevaluated pairs of float32, sum + carry (Knuth's two-sum on every addition, exact
// to about 48 bits), so that they are exact to 1e-6 of the mean term after 1e8 positions; attention
// reads `sum` alone.
struct LinearState {
  float* key_value_sum = nullptr;    // [G, F, V]   A
  float* key_value_carry = nullptr;  // [G, F, V]
  float* key_sum = nullptr;          // [G, F]      b
  float* key_carry = nullptr;        // [G, F]

  // True for the state of no session: all pointers are null.
  constexpr bool none() const { return key_value_sum == nullptr; }
};

struct LinearShape {
  int64_t kv_heads = 0;  // G
  int64_t features = 0;  // F
  int64_t value = 0;     // V
};

// One new position for each of N sessions; no state may occur twice. Adds k v^T and k, then
// attends. A session's result does not depend on N. A row whose state is none fills up the batch:
// its row of `out` is zero.
//
// Bytes per session and key/value head: both halves of A are read and written, 16 F V.
struct LinearDecodeAttentionArgs {
  LinearShape shape;
  Vector<const LinearState> states;  // [N]
  Tensor<const float, 3> q;          // [N, H, F], G divides H
  Tensor<const float, 3> k;          // [N, G, F]
  Tensor<const float, 3> v;          // [N, G, V]
  Tensor<float, 3> out;              // [N, H, V]
  bool query_exponents = false;
};

// T consecutive positions of one session, block-parallel: a query attends to A and b as they stood
// when its block began, and to the positions of its block up to its own one by one. Blocks start at
// absolute multiples of kLinearPrefillBlock, so that chunk boundaries at such multiples do not
// change any bits. A position's bits depend on nothing that comes after it. State afterwards: as
// after T decode steps (additions in order of position, same bits).
//
// Per block and key/value head A is read and written once; 2 F V operations a query head and
// position for attention, about 11 F V a key/value head and position for the additions.
inline constexpr int64_t kLinearPrefillBlock = 64;

struct LinearPrefillAttentionArgs {
  LinearShape shape;
  LinearState state;
  int64_t position = 0;      // of the first row, from 0
  Tensor<const float, 3> q;  // [T, H, F], G divides H
  Tensor<const float, 3> k;  // [T, G, F]
  Tensor<const float, 3> v;  // [T, G, V]
  Tensor<float, 3> out;      // [T, H, V]
  bool query_exponents = false;
};

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_ATTENTION_LINEAR_ATTENTION_H_
