// Attention over quantized keys with a state of constant size (docs/mathematics.md, docs/state.md).
//
//   score(i,j) = code_score_i[z_j] + position_score_i[i-j]   if i-j <= M
//              = code_score_i[z_j]                           if i-j >  M
//   o_i = softmax_{j<=i}(score) V
//
// Positions farther away than M are retired. Of those with code s only U[s], the sum of their v,
// and n[s], their number, are kept. They add sum_s exp(code_score[s]) U[s] to the numerator of the
// softmax and sum_s exp(code_score[s]) n[s] to its denominator. One maximum is subtracted from the
// scores of codes with n[s] > 0 and of recent positions together.
#ifndef TVQ_KERNELS_OPS_ATTENTION_VQ_ATTENTION_H_
#define TVQ_KERNELS_OPS_ATTENTION_VQ_ATTENTION_H_

#include "kernels/device/tensor.h"
#include "kernels/ops/attention/key_panels.h"
#include "kernels/ops/ops.h"

namespace tvq {

// One session's state in one layer. G key/value heads, S codes, W = M + 1 recent positions, V
// values.
//
// U = sum + carry, an unevaluated pair of float32 (Knuth's two-sum on every addition, exact to
// about 48 bits), so that the mean row is exact to 1e-6 after 1e8 retirements; attention reads
// `sum` alone. Position p lies in slot p % W of the window until it retires, which is when position
// p + W is appended.
//
// Where the shape says so, a state has a read copy, which decode reads instead of the sums and the
// window's values. It holds sum / n of every code and the values of every slot, quantized. It is a
// function of the sums and values alone, and every op that changes these updates the copy. In the
// copy, rows of codes with n = 0 and of slots that were never written are zero.
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

  // The keys of recent positions, where these are kept (kernels/ops/attention/ring_scores.h), else
  // null.
  void* window_key = nullptr;  // [G, W / 16, K, 16] of `value_dtype`: panels of 16 slots
  float* sink_key = nullptr;   // [G, K] of position 0, not turned

  // VqUndoBytes of memory where a decode step keeps what it overwrites; null: it keeps nothing. The
  // memory belongs to the row that is fed to the state, not to the state.
  void* undo = nullptr;

  // True for the state of no session: all pointers are null.
  constexpr bool none() const { return sum == nullptr; }
};

// What decode reads of a state: the exact rows, or their copy in int8.
enum class VqRead : uint8_t { kExact, kInt8 };

// In a row of the read copy this many consecutive columns share a scale: their largest absolute
// value divided by 127.
inline constexpr int64_t kVqScaleColumns = 64;

// How far an output that is computed from the copy may be from the sum of weight * scale * value,
// relative to the copy's largest |v| and without the rounding of float32. A backend may round
// weight * scale to multiples of 1 / 32767 of the largest one in 32 rows. A row's error is then
// half such a step, and a little more since a quotient is rounded on the way. 32 rows share a step,
// and the largest weights of all groups of 32 are at most 1 together.
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

// Bytes of what appending a position overwrites: per key/value head a slot of the window and the
// row of the code whose position retires, with their read copies if there are any.
constexpr int64_t VqUndoBytes(const VqShape& shape) {
  const int64_t copies = shape.read == VqRead::kExact ? 0 : 2 * (shape.value + 4 * shape.scales());
  const auto value_bytes = static_cast<int64_t>(SizeOf(shape.value_dtype));
  return shape.kv_heads *
         (4 + 8 + shape.value * (value_bytes + 8) + copies + shape.key * value_bytes);
}

// One new position for each of N sessions. Retires the position that leaves each window, appends
// (code, v) at positions[n], then attends. Several rows may have the same state: they must follow
// one another and be its consecutive positions, and each has the bits that it has in a call of its
// own. A backend that lacks VqTakeBack takes no state twice. There are two phases: first the
// weights of all rows are computed, then values are read. A session's result does not depend on N.
// A row whose state is none fills up the batch: its row of `out` is zero.
//
// Between the phases it is known what it costs to leave out the values of a code or a position: its
// share of the softmax, which for a code is its count times its weight. For each head the op finds
// those with the smallest shares, at most `skip_mass` together, where shares are told apart to an
// eighth of a power of two. What all heads of a key/value head can leave out is not read, and the
// other weights are raised so that they sum to one. So a head's output moves by at most 2 m max|v|,
// where m is its `skipped_mass`: m of the weight is missing, and as much is added elsewhere.
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

// T consecutive positions of one session, block-parallel. A block of queries attends to the
// accumulator, U and n, as it stood at the block's first query, and one by one to every position
// that had not retired by then. It reads the exact rows, whatever decode reads. Blocks are
// kVqPrefillBlock queries on the CPU and kVqPrefillSpan on a GPU, which needs more queries to have
// enough work at once. Blocks start at absolute multiples of that, so that chunk boundaries at
// multiples of kVqPrefillSpan do not change any bits. A position's bits depend on nothing that
// comes after it. State afterwards: as after T decode steps (retirement in order of position, same
// bits).
inline constexpr int64_t kVqPrefillBlock = 64;
inline constexpr int64_t kVqPrefillSpan = 256;

// How far outputs may be off, relative to the largest |v|, where prefill rounds the factors of its
// products to bfloat16, each by up to r = 2^-8 of itself, and divides by the sum of the rounded
// weights. With weights w_j (1 + e_j) an output moves by the sum of w_j e_j (v_j - o) over that of
// w_j (1 + e_j), at most 2 r / (1 - r); the rounding of values moves it by r more.
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

  // The type to which the factors of products (weights, rows of U, values) may be rounded: float32,
  // or bfloat16 (kVqRoundedFactors). With bfloat16 a device rounds only if that makes it faster, as
  // VDPBF16PS does on a CPU; other devices compute as with float32. Products are added in float32
  // and the state has the same bits in any case.
  DType factors = DType::kFloat32;
};

// Undoes the decode step that appended the last position. That step must have kept what it
// overwrote in `state.undo`. State afterwards: as before that step, bit for bit.
struct VqTakeBackArgs {
  VqShape shape;
  VqState state;
  int64_t position = 0;
};

// Makes the read copy of a state from its exact rows, with the same bits as the ops leave. The
// state lies in host memory and may come from any device. May be called from any thread.
void BuildVqReadCopy(const VqShape& shape, const VqState& host);

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_ATTENTION_VQ_ATTENTION_H_
