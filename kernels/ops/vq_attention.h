// Attention over quantized keys with a state of constant size (docs/mathematics.md, docs/state.md).
//
//   score(i,j) = code_score_i[z_j] + position_score_i[i-j]   if i-j <= M
//              = code_score_i[z_j]                           if i-j >  M
//   o_i = softmax_{j<=i}(score) V
//
// Positions farther away than M are retired: only U[s] = sum of their v with code s and n[s], how
// many, are kept, so that their part is sum_s exp(code_score[s]) U[s] over sum_s exp(code_score[s])
// n[s]. One maximum covers codes with n[s] > 0 and recent positions together.
#ifndef TVQ_KERNELS_OPS_VQ_ATTENTION_H_
#define TVQ_KERNELS_OPS_VQ_ATTENTION_H_

#include "absl/status/status.h"
#include "kernels/device.h"
#include "kernels/tensor.h"

namespace tvq {

// One session's state in one layer. G key/value heads, S codes, W = M + 1 recent positions, V
// values.
//
// U = sum + carry, an unevaluated pair of float32 (Dekker's two-sum on every addition, exact to
// about 48 bits), so that the mean row holds to 1e-6 after 1e8 retirements; attention reads `sum`
// alone. Position p lies in slot p % W of the window until it retires, which is when position p + W
// is appended.
struct VqState {
  float* sum = nullptr;            // [G, S, V]
  float* carry = nullptr;          // [G, S, V]
  int64_t* count = nullptr;        // [G, S]   n
  int32_t* window_code = nullptr;  // [G, W]
  void* window_value = nullptr;    // [G, W, V] of `value_dtype`

  // Of nobody: all of it is null.
  constexpr bool none() const { return sum == nullptr; }
};

struct VqShape {
  int64_t kv_heads = 0;  // G
  int64_t codes = 0;     // S
  int64_t window = 0;    // W = M + 1
  int64_t value = 0;     // V
  DType value_dtype = DType::kFloat32;
};

// One new position for each of N sessions; no state twice. Retires the position that leaves each
// window, appends (code, v) at positions[n], then attends. Two phases inside: the weights of all
// rows, then the values of rows. A session's result does not depend on N. A row whose state is none
// fills up the batch: its row of `out` is zero.
struct VqDecodeAttentionArgs {
  VqShape shape;
  Vector<const VqState> states;            // [N]
  Vector<const int64_t> positions;         // [N] position of the new token, from 0
  Tensor<const float, 3> code_scores;      // [N, H, S]
  Tensor<const float, 3> position_scores;  // [N, H, W] by distance
  Matrix<const int32_t> codes;             // [N, G]
  Tensor<const float, 3> v;                // [N, G, V]
  Tensor<float, 3> out;                    // [N, H, V]
};

absl::Status VqDecodeAttention(Device& device, const VqDecodeAttentionArgs& args);

// T consecutive positions of one session, block-parallel: blocks of queries attend to the
// accumulator as it stood when the block's first query came, and one by one to every later
// position. Blocks are kVqPrefillBlock queries on the CPU and kVqPrefillSpan on a GPU, whose blocks
// run beside each other and must be many; they start at absolute multiples of that, so that chunk
// boundaries at multiples of kVqPrefillSpan do not change any bits. A position's bits depend on
// nothing that comes after it. State afterwards: as after T decode steps (retirement in order of
// position, same bits).
inline constexpr int64_t kVqPrefillBlock = 64;
inline constexpr int64_t kVqPrefillSpan = 256;

struct VqPrefillAttentionArgs {
  VqShape shape;
  VqState state;
  int64_t position = 0;                    // of the first row
  Tensor<const float, 3> code_scores;      // [T, H, S]
  Tensor<const float, 3> position_scores;  // [T, H, W]
  Matrix<const int32_t> codes;             // [T, G]
  Tensor<const float, 3> v;                // [T, G, V]
  Tensor<float, 3> out;                    // [T, H, V]
};

absl::Status VqPrefillAttention(Device& device, const VqPrefillAttentionArgs& args);

// Retires and appends T positions without attending: the state's part of the two ops above.
struct VqAppendArgs {
  VqShape shape;
  VqState state;
  int64_t position = 0;
  Matrix<const int32_t> codes;  // [T, G]
  Tensor<const float, 3> v;     // [T, G, V]
};

absl::Status VqAppend(Device& device, const VqAppendArgs& args);

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_VQ_ATTENTION_H_
