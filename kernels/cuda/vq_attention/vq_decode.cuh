// What the kernels of decode attention share, whether states are read exactly and whole
// (vq_decode_attention.cu) or not (vq_reduced.cuh): how a position enters a state, and how blocks
// divide the rows that are read.
#ifndef TVQ_KERNELS_CUDA_VQ_ATTENTION_VQ_DECODE_CUH_
#define TVQ_KERNELS_CUDA_VQ_ATTENTION_VQ_DECODE_CUH_

#include "kernels/cuda/common/kernel.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/numbers/bfloat16.h"
#include "kernels/numbers/two_sum.h"
#include "kernels/ops/attention/vq_attention.h"

namespace tvq::TVQ_CUDA {

// The warps, threads and rows of a block that reads values.
constexpr int kReadWarps = 8;
constexpr int kReadThreads = kReadWarps * kWarp;
constexpr int kReadRowsPerWarp = 8;
constexpr int kReadRows = kReadWarps * kReadRowsPerWarp;
constexpr int32_t kNoCode = -1;

struct VqDecode {
  VqShape shape;
  const VqState* states;
  const int64_t* positions;
  int64_t heads;
  const float* code_scores;
  const float* position_scores;
  const int32_t* codes;
  const float* v;
  float* weights;      // [N, H, S + W], window rows by slot
  float* denominator;  // [N, H]
  float* partial;      // sums of the blocks that share an output
  uint32_t* tickets;   // of those blocks
  float* out;

  __host__ __device__ int64_t Rows() const { return shape.codes + shape.window; }
  // Blocks that it takes to read all rows of the same columns.
  __host__ __device__ int64_t Splits() const { return (Rows() + kReadRows - 1) / kReadRows; }

  // The slot in head g's window where the code of session n's new position goes, and the code that
  // leaves the window.
  __device__ int32_t& CodeSlot(int64_t n, int64_t g) const {
    return states[n].window_code[g * shape.window + positions[n] % shape.window];
  }
  __device__ int32_t Retired(int64_t n, int64_t g) const {
    return positions[n] >= shape.window ? CodeSlot(n, g) : kNoCode;
  }
  // How many slots hold a position when the new one has entered; they are the first ones.
  __device__ int64_t Recent(int64_t n) const {
    return positions[n] + 1 < shape.window ? positions[n] + 1 : shape.window;
  }
  // How many positions a row stands for then; 0: none. To be called before the kernel that reads
  // values, which changes the counts.
  __device__ int64_t Count(int64_t n, int64_t g, int64_t row) const {
    if (row >= shape.codes) return row - shape.codes < Recent(n) ? 1 : 0;
    return states[n].count[g * shape.codes + row] + (row == Retired(n, g) ? 1 : 0);
  }
};

// What the window holds of a value that enters it.
template <typename T>
__device__ inline float Stored(float value) {
  T stored;
  StoreAs(value, &stored);
  return Widen(stored);
}

// Appends column c of head g: the value that leaves is added to U, and the new one takes its place.
template <typename T>
__device__ inline void AppendValue(const VqDecode& args, int64_t n, int64_t g, int64_t c) {
  const int64_t values = args.shape.value, window = args.shape.window;
  const VqState& state = args.states[n];
  T& slot =
      static_cast<T*>(state.window_value)[(g * window + args.positions[n] % window) * values + c];
  if (const int32_t code = args.Retired(n, g); code != kNoCode) {
    const int64_t at = (g * args.shape.codes + code) * values + c;
    AddTwoSum(Widen(slot), state.sum[at], state.carry[at]);
  }
  StoreAs(args.v[(n * args.shape.kv_heads + g) * values + c], &slot);
}

// Writes the code of the position that enters, and counts the code that leaves. The weights were
// computed before.
__device__ inline void EnterCode(const VqDecode& args, int64_t n, int64_t g) {
  if (const int32_t code = args.Retired(n, g); code != kNoCode) {
    ++args.states[n].count[g * args.shape.codes + code];
  }
  args.CodeSlot(n, g) = args.codes[n * args.shape.kv_heads + g];
}

// Loads kColumns values of a row from `row` on, of which `left` exist. kAligned: V is a multiple of
// kColumns, so that a lane loads them at once.
template <int kColumns, bool kAligned, typename T>
__device__ inline void LoadRow(const T* row, int64_t left, float (&values)[kColumns]) {
  if constexpr (kAligned) {
    struct alignas(sizeof(T) * kColumns) Pack {
      T element[kColumns];
    };
    const Pack pack = *reinterpret_cast<const Pack*>(row);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) values[i] = Widen(pack.element[i]);
  } else {
    for (int i = 0; i < kColumns; ++i) values[i] = i < left ? Widen(row[i]) : 0;
  }
}

// Decode that reads the copy or may leave rows out (vq_read_rows.cu). In `decode` only what the
// caller gave is set.
absl::Status RunReducedDecode(Device& device, const VqDecodeAttentionArgs& args,
                              const VqDecode& decode);

// Reports that all rows are read, ahead of the kernels that read them.
absl::Status ReportWholeReads(Device& device, const VqDecodeAttentionArgs& args,
                              const VqDecode& decode);

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_VQ_ATTENTION_VQ_DECODE_CUH_
