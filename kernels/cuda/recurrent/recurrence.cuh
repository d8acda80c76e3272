// The recurrence of recurrent layers (kernels/ops/recurrent/recurrence.h) with what stands before
// and behind it. Per head, of vectors w, a, b, k, q [K] and v [V], with a matrix S [K, V]:
//
//   S = diag(w) S - b (a^T S) + k v^T      y = S^T q
//
// There are two kernels. The first has a block for a tile of a head's columns, which do not depend
// on one another: of one row in decode, of all rows in prefill. S is in registers from the first
// row to the last, 4 K V bytes a head each way. A column belongs to as many lanes of a warp as it
// takes, kMatrixRows rows of it to each, which add their sums up in a butterfly. Each warp prepares
// the vectors of one row in shared memory, then the block takes these rows one after the other,
// without a barrier between them. The second kernel has a warp for each head of a row, which makes
// out of y where that lies: a norm wants all columns.
//
// A row takes the same way in decode and in prefill, so it has the same bits.
//
// An op, which is passed by value, has
//
//   kRemoves                  whether there are a and b, which else are 0
//   Prepare(n, h, prepared)   by a warp: w, k, q, a and b of row n and head h; returns beta
//   Value(n, h, column)       v = beta Value
//   Finish(n, h, y)           by a warp: makes out [V] of y [V], in place
#ifndef TVQ_KERNELS_CUDA_RECURRENT_RECURRENCE_CUH_
#define TVQ_KERNELS_CUDA_RECURRENT_RECURRENCE_CUH_

#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/recurrent/sessions.cuh"

namespace tvq::TVQ_CUDA {

constexpr int kRecurrenceThreads = 128;
constexpr int kRecurrenceWarps = kRecurrenceThreads / kWarp;  // so many rows are prepared at once
constexpr int kMatrixRows = 32;                               // that a lane holds of a column
// Between what two lanes read of a vector, 16 bytes at a time, so that their banks differ.
constexpr int kLaneStride = kMatrixRows + 4;
constexpr int64_t kMostKeys = int64_t{kWarp} * kMatrixRows;

enum PreparedVector { kW, kK, kQ, kA, kB };

// The vectors of a row and a head, in shared memory.
struct Prepared {
  float* memory;
  int stride;  // from one vector to the next

  __device__ float& operator()(PreparedVector vector, int i) const {
    return memory[vector * stride + i / kMatrixRows * kLaneStride + i % kMatrixRows];
  }
};

struct Recurrence {
  Sessions sessions;
  int64_t rows;  // of a block
  int heads, key, value;
  int lanes;    // of a column, a power of 2
  int columns;  // of a block
  int tiles;
  float* out;

  __host__ __device__ int VectorFloats() const { return lanes * kLaneStride; }
};

__device__ inline void LoadQuad(const float* from, float (&to)[4]) {
  const float4 quad = *reinterpret_cast<const float4*>(from);
  to[0] = quad.x;
  to[1] = quad.y;
  to[2] = quad.z;
  to[3] = quad.w;
}

// x^T S of a column, for all the lanes that share it; x points to this lane's part.
__device__ inline float TimesColumn(const float* x, const float (&s)[kMatrixRows], int lanes) {
  float sum[4] = {};
#pragma unroll
  for (int i = 0; i < kMatrixRows; i += 4) {
    float factor[4];
    LoadQuad(x + i, factor);
#pragma unroll
    for (int c = 0; c < 4; ++c) sum[c] = fmaf(factor[c], s[i + c], sum[c]);
  }
  float total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  for (int step = kWarp / lanes; step < kWarp; step *= 2) total += ShuffleXor(total, step);
  return total;
}

// Takes a column through a row, and returns its y. x points to this lane's part of the first
// vector.
template <bool kRemoves>
__device__ inline float Step(const float* x, int stride, float v, int lanes,
                             float (&s)[kMatrixRows]) {
  const float removed = kRemoves ? TimesColumn(x + kA * stride, s, lanes) : 0;
#pragma unroll
  for (int i = 0; i < kMatrixRows; i += 4) {
    float w[4], k[4], b[4];
    LoadQuad(x + kW * stride + i, w);
    LoadQuad(x + kK * stride + i, k);
    if constexpr (kRemoves) LoadQuad(x + kB * stride + i, b);
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      float kept = w[c] * s[i + c];
      if constexpr (kRemoves) kept = fmaf(-b[c], removed, kept);
      s[i + c] = fmaf(k[c], v, kept);
    }
  }
  return TimesColumn(x + kQ * stride, s, lanes);
}

// blockIdx.x counts the tiles of the first head, then those of the next; blockIdx.y is the row in
// decode.
template <class Op>
__global__ void __launch_bounds__(kRecurrenceThreads) RecurrenceKernel(Recurrence args, Op op) {
  constexpr int kVectors = Op::kRemoves ? 5 : 3;
  LetSuccessorBegin();
  const int block = static_cast<int>(blockIdx.x);
  const int h = block / args.tiles, first_column = block % args.tiles * args.columns;
  const int beside = kWarp / args.lanes;  // columns of a warp
  const int own = WarpId() * beside + LaneId() % beside, column = first_column + own;
  const int part = LaneId() / beside, first_row = part * kMatrixRows;
  const int stride = args.VectorFloats(), row_floats = kVectors * stride + args.columns;
  float* const shared = LaunchShared<float>();
  float* const values = shared + WarpId() * row_floats + kVectors * stride;
  const Prepared prepared{shared + WarpId() * row_floats, stride};
  for (int i = args.key + LaneId(); i < args.lanes * kMatrixRows; i += kWarp) {
    for (int vector = 0; vector < kVectors; ++vector) {
      prepared(static_cast<PreparedVector>(vector), i) = 0;
    }
  }

  WaitForPredecessor();
  const int64_t first = static_cast<int64_t>(blockIdx.y) * args.rows, end = first + args.rows;
  const RecurrentState state = args.sessions.Of(first);
  if (state.none()) return;
  const int rows_left = column < args.value ? args.key - first_row : 0;
  float* const matrix =
      state.matrix + (static_cast<int64_t>(h) * args.key + first_row) * args.value + column;
  float s[kMatrixRows];
#pragma unroll
  for (int i = 0; i < kMatrixRows; ++i) {
    s[i] = i < rows_left ? matrix[i * args.value] : 0;
  }
  for (int64_t at = first; at < end; at += kRecurrenceWarps) {
    if (at + WarpId() < end) {
      const int64_t n = at + WarpId();
      const float beta = op.Prepare(n, h, prepared);
      for (int c = LaneId(); c < args.columns; c += kWarp) {
        values[c] = first_column + c < args.value ? beta * op.Value(n, h, first_column + c) : 0;
      }
    }
    __syncthreads();
    const auto count = static_cast<int>(min(int64_t{kRecurrenceWarps}, end - at));
    for (int i = 0; i < count; ++i) {
      const float* const row = shared + i * row_floats;
      const float y = Step<Op::kRemoves>(row + part * kLaneStride, stride,
                                         row[kVectors * stride + own], args.lanes, s);
      if (part == 0 && column < args.value) {
        args.out[((at + i) * args.heads + h) * args.value + column] = y;
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kMatrixRows; ++i) {
    if (i < rows_left) matrix[i * args.value] = s[i];
  }
}

// A warp for each head of each of `count` rows.
template <class Op>
__global__ void __launch_bounds__(kRecurrenceThreads)
    FinishKernel(Recurrence args, int64_t count, Op op) {
  LetSuccessorBegin();
  WaitForPredecessor();
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kRecurrenceWarps + WarpId();
  const int64_t n = at / args.heads;
  if (n >= count) return;
  float* const y = args.out + at * args.value;
  if (!args.sessions.Of(n).none()) return op.Finish(n, static_cast<int>(at % args.heads), y);
  for (int i = LaneId(); i < args.value; i += kWarp) y[i] = 0;
}

// `out` [N, H, V] of all rows; `name` is that of the op.
template <class Op>
absl::Status Recur(const char* name, Device& device, const RecurrentRows& sessions, int64_t key,
                   const Tensor<float, 3>& out, const Op& op) {
  const auto [rows, heads, value] = out.shape;
  if (rows == 0) return absl::OkStatus();
  if (key > kMostKeys) {
    return absl::UnimplementedError(absl::StrCat(name, ": the backend 'cuda' takes keys of up to ",
                                                 kMostKeys, " numbers, not of ", key));
  }
  Recurrence args{.sessions = Sessions(sessions),
                  .rows = sessions.prefill() ? rows : 1,
                  .heads = static_cast<int>(heads),
                  .key = static_cast<int>(key),
                  .value = static_cast<int>(value),
                  .lanes = 1,
                  .columns = 0,
                  .tiles = 0,
                  .out = out.data};
  while (args.lanes * kMatrixRows < key) args.lanes *= 2;
  args.columns = kRecurrenceThreads / args.lanes;
  args.tiles = (args.value + args.columns - 1) / args.columns;
  const int row_floats = (Op::kRemoves ? 5 : 3) * args.VectorFloats() + args.columns;
  const absl::Status status =
      Launch(name, device,
             {.blocks = heads * args.tiles,
              .blocks_y = rows / args.rows,
              .threads = kRecurrenceThreads,
              .shared_bytes = static_cast<int>(kRecurrenceWarps * row_floats * sizeof(float)),
              .overlaps = true},
             RecurrenceKernel<Op>, args, op);
  if (!status.ok()) return status;
  return Launch(name, device,
                {.blocks = (rows * heads + kRecurrenceWarps - 1) / kRecurrenceWarps,
                 .threads = kRecurrenceThreads,
                 .overlaps = true},
                FinishKernel<Op>, args, rows, op);
}

__device__ inline float Sigmoid(float x) { return 1 / (1 + expf(-x)); }
__device__ inline float Silu(float x) { return x / (1 + expf(-x)); }
__device__ inline float Softplus(float x) { return fmaxf(x, 0) + log1pf(expf(-fabsf(x))); }

// The sum of term(i) for i < count, for all lanes of a warp.
template <class Term>
__device__ inline float WarpSum(int count, const Term& term) {
  float sum = 0;
  for (int i = LaneId(); i < count; i += kWarp) sum += term(i);
  return WarpReduce(sum, Add());
}

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_RECURRENT_RECURRENCE_CUH_
