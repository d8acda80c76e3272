// Attention over quantized keys with a state of constant size (docs/mathematics.md, docs/state.md).
//
//   score(i,j) = code_score_i[z_j] + position_score_i[i-j]   if i-j <= M
//              = code_score_i[z_j]                           if i-j >  M
//   o_i = softmax_{j<=i}(score) V
//
// Positions farther away than M are retired: only U[s] = sum of their v with code s and n[s], how
// many, are kept, so that their part is sum_s exp(code_score[s]) U[s] over sum_s exp(code_score[s])
// n[s]. One maximum covers codes with n[s] > 0 and recent positions together.
#ifndef TVQ_KERNELS_OPS_ATTENTION_VQ_ATTENTION_H_
#define TVQ_KERNELS_OPS_ATTENTION_VQ_ATTENTION_H_

#include "kernels/device/tensor.h"
#include "kernels/ops/attention/key_panels.h"
#include "kernels/ops/ops.h"

namespace tvq {

// One session's state in one layer. G key/value heads, S codes, W = M + 1 recent positions, V
// values.
//
// U = sum + carry, an unevaluated pair of float32 (Dekker's two-sum on every addition, exact to
// about 48 bits), so that the mean row holds to 1e-6 after 1e8 retirements; attention reads `sum`
// alone. Position p lies in slot p % W of the window until it retires, which is when position p + W
// is appended.
//
// The read copy, where the shape says so, is what decode reads instead of the sums and the window's
// values: sum / n of every code and the values of every slot, quantized. It is a function of them
// alone, and every op that writes them rewrites what it changed of it. Rows of codes with n = 0 and
// of slots that nothing was written to are zero.
struct VqState {
  float* sum = nullptr;            // [G, S, V]
  float* carry = nullptr;          // [G, S, V]
  int64_t* count = nullptr;        // [G, S]   n
  int32_t* window_code = nullptr;  // [G, W]
  void* window_value = nullptr;    // [G, W, V] of `value_dtype`

  // The read copy; null without one.
  int8_t* mean = nullptr;         // [G, S, V]
  float* mean_scale = nullptr;    // [G, S, V / kVqScaleColumns, rounded up]
  int8_t* recent = nullptr;       // [G, W, V]
  float* recent_scale = nullptr;  // [G, W, V / kVqScaleColumns, rounded up]

  // Where keys of recent positions are kept, too (kernels/ops/attention/ring_scores.h), else null.
  void* window_key = nullptr;  // [G, W / 16, K, 16] of `value_dtype`: panels of 16 slots
  float* sink_key = nullptr;   // [G, K] of position 0, not turned

  // Where a decode step keeps what it overwrites, VqUndoBytes; null: nowhere. Not of the state, but
  // of the row that is fed to it.
  void* undo = nullptr;

  // Of no session: all of it is null.
  constexpr bool none() const { return sum == nullptr; }
};

// What decode reads of a state: the exact rows, or their copy in int8.
enum class VqRead : uint8_t { kExact, kInt8 };

// Consecutive columns of a row of the read copy that share a scale: the largest of them in absolute
// value, divided by 127.
inline constexpr int64_t kVqScaleColumns = 64;

// How far an output that is computed from the copy may be, relative to the largest |v| of it, from
// the sum of weight * scale * value, beside what float32 rounds: a backend may round weight * scale
// to 1 / 32767 of the largest one in 32 rows. That takes half a step and the rounding of a quotient
// on the way there, of 32 rows whose weights together are at most 32 times the largest one; and the
// largest weights of all such groups are at most 1 together.
inline constexpr double kVqCopySumError = (0.5 + 0x1p-7) * 32 / 32767;

struct VqShape {
  int64_t kv_heads = 0;  // G
  int64_t codes = 0;     // S
  int64_t window = 0;    // W = M + 1
  int64_t value = 0;     // V
  DType value_dtype = DType::kFloat32;
  VqRead read = VqRead::kExact;
  int64_t key = 0;  // K of the window's keys; 0: none are kept

  // Where number `i` of the key in `slot` lies; the next one lies kKeyPanel further on.
  constexpr int64_t KeyIndex(int64_t g, int64_t slot, int64_t i) const {
    return (g * window + slot / kKeyPanel * kKeyPanel) * key + i * kKeyPanel + slot % kKeyPanel;
  }
  // Scales of a row of the read copy.
  constexpr int64_t scales() const { return (value + kVqScaleColumns - 1) / kVqScaleColumns; }
};

// What appending a position overwrites: per head a slot of the window and the row of the code that
// retires, with their copies, if there are any.
constexpr int64_t VqUndoBytes(const VqShape& shape) {
  const int64_t copies = shape.read == VqRead::kExact ? 0 : 2 * (shape.value + 4 * shape.scales());
  const auto value_bytes = static_cast<int64_t>(SizeOf(shape.value_dtype));
  return shape.kv_heads *
         (4 + 8 + shape.value * (value_bytes + 8) + copies + shape.key * value_bytes);
}

// One new position for each of N sessions. Retires the position that leaves each window, appends
// (code, v) at positions[n], then attends. Rows of one state are its consecutive positions, one row
// behind the other, each with the bits that it has in a call of its own; a backend that lacks
// VqTakeBack takes no state twice. Two phases inside: the weights of all rows, then the values of
// rows. A session's result does not depend on N. A row whose state is none fills up the batch: its
// row of `out` is zero.
//
// Between the phases it is known what leaving a row out costs: its share of the softmax, which is
// count times weight for a code. For each head the rows of the smallest shares are found that make
// up at most `skip_mass` together, to an eighth of a power of two; what all heads that share a
// key/value head find is not read, and the other weights are raised to sum to one. So a head's
// output moves by at most 2 m max|v|, m its `skipped_mass`: m of the weight is missing, as much is
// put elsewhere.
struct VqDecodeAttentionArgs {
  VqShape shape;
  Vector<const VqState> states;            // [N]
  Vector<const int64_t> positions;         // [N] position of the new token, from 0
  Tensor<const float, 3> code_scores;      // [N, H, S]
  Tensor<const float, 3> position_scores;  // [N, H, W] by distance
  Matrix<const int32_t> codes;             // [N, G]
  Tensor<const float, 3> v;                // [N, G, V]
  Tensor<float, 3> out;                    // [N, H, V]

  float skip_mass = 0;         // [0, 1); 0: every row is read
  Matrix<float> skipped_mass;  // [N, H] out, or empty: softmax mass of the rows that were not read
  Tensor<int32_t, 3> row_reads;  // [N, G, 2] out, or empty: rows that have a weight, rows read
};

// T consecutive positions of one session, block-parallel: blocks of queries attend to the
// accumulator as it stood when the block's first query came, and one by one to every later
// position, by the exact rows whatever decode reads. Blocks are kVqPrefillBlock queries on the CPU
// and kVqPrefillSpan on a GPU, whose blocks run beside each other and must be many; they start at
// absolute multiples of that, so that chunk boundaries at multiples of kVqPrefillSpan do not change
// any bits. A position's bits depend on nothing that comes after it. State afterwards: as after T
// decode steps (retirement in order of position, same bits).
inline constexpr int64_t kVqPrefillBlock = 64;
inline constexpr int64_t kVqPrefillSpan = 256;

// How far outputs may be off, relative to the largest |v|, where prefill's factors are rounded to
// bfloat16, each by up to r = 2^-8 of it, and weights are divided by the sum of the rounded ones.
// With weights w_j (1 + e_j) an output moves by the sum of w_j e_j (v_j - o) over that of w_j (1 +
// e_j), at most 2 r / (1 - r); that rows are r off moves it by r.
inline constexpr double kVqRoundedFactors = 3 * 0x1p-8 / (1 - 0x1p-8);

struct VqPrefillAttentionArgs {
  VqShape shape;
  VqState state;
  int64_t position = 0;                    // of the first row
  Tensor<const float, 3> code_scores;      // [T, H, S]
  Tensor<const float, 3> position_scores;  // [T, H, W]
  Matrix<const int32_t> codes;             // [T, G]
  Tensor<const float, 3> v;                // [T, G, V]
  Tensor<float, 3> out;                    // [T, H, V]

  // What the products' factors, weights, rows of U and values, may be rounded to: float32, or
  // bfloat16 (kVqRoundedFactors), of which a device makes use where it is faster by that, as the
  // CPU is by VDPBF16PS; all others are as exact as with float32. Products are added in float32,
  // and the state has the same bits.
  DType factors = DType::kFloat32;
};

// Takes back the position that was appended last, by a decode step that kept in `state.undo` what
// it overwrote. State afterwards: as before that step, bit for bit.
struct VqTakeBackArgs {
  VqShape shape;
  VqState state;
  int64_t position = 0;
};

// Makes the read copy of a state in host memory, which may be of any device, from its exact rows:
// the same bits as the ops leave. From any thread.
void BuildVqReadCopy(const VqShape& shape, const VqState& host);

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_ATTENTION_VQ_ATTENTION_H_
