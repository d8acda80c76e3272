// Attention of one new position of each of N sessions over its constant-size state.
//
//   w_s = exp(code_score[s] - m) for codes with n[s] > 0      w_d = exp(score of distance d - m)
//   out = (sum_s w_s U[s] + sum_d w_d v_d) / (sum_s w_s n[s] + sum_d w_d)
//
// Two kernels. The first lets the positions enter their states and computes weights, beside each
// other: a thread a column retires the value that leaves the window into U and its carry (3 V in
// and out, a value of the window among them) and puts the new one in its place; a block a session
// and head turns S + W scores into as many weights and one denominator, as the codes and counts
// will stand. The second reads values: every row of U (4 V bytes) and of the window (2 or 4 V) once
// per head, which is nearly all that moves; a block takes 64 rows and 128 columns, so that even one
// session fills the GPU, rows of weight 0 are not read, and the last block to arrive adds the
// partial sums of the blocks in their order. It also writes the codes and counts down, which nobody
// reads by then. Shapes alone decide on splits: a session's bits do not depend on N.
#include "kernels/bfloat16.h"
#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/tickets.cuh"
#include "kernels/two_sum.h"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kStartThreads = 256;  // and columns of a block that appends
constexpr int32_t kNoCode = -1;
constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;
constexpr int kRowsPerWarp = 8;
constexpr int kRows = kWarps * kRowsPerWarp;  // of a block
constexpr int kPerLane = 4;                   // columns
constexpr int kColumns = kWarp * kPerLane;    // of a block

struct Decode {
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
  float* partial;      // [N, H, splits, V]
  uint32_t* tickets;   // [N, H, blocks of columns]
  float* out;

  __host__ __device__ int64_t Rows() const { return shape.codes + shape.window; }
  __host__ __device__ int64_t Splits() const { return (Rows() + kRows - 1) / kRows; }
  __host__ __device__ int64_t ColumnBlocks() const {
    return (shape.value + kColumns - 1) / kColumns;
  }
  __host__ __device__ int64_t AppendBlocks() const {
    return (shape.value + kStartThreads - 1) / kStartThreads;
  }

  // Where the new position of session n goes in the window of head g, and the code that leaves it.
  __device__ int32_t& CodeSlot(int64_t n, int64_t g) const {
    return states[n].window_code[g * shape.window + positions[n] % shape.window];
  }
  __device__ int32_t Retired(int64_t n, int64_t g) const {
    return positions[n] >= shape.window ? CodeSlot(n, g) : kNoCode;
  }
};

// The largest score first, then weights and their sum, by the codes and counts that the state will
// have when the position has entered it.
__device__ inline void ComputeWeights(const Decode& args, int64_t n, int64_t h, float* partial) {
  const int64_t codes = args.shape.codes, window = args.shape.window;
  const int64_t kv_heads = args.shape.kv_heads, g = h / (args.heads / kv_heads);
  const VqState& state = args.states[n];
  const int64_t position = args.positions[n];
  const int64_t recent = position + 1 < window ? position + 1 : window;
  const float* code_scores = args.code_scores + (n * args.heads + h) * codes;
  const float* position_scores = args.position_scores + (n * args.heads + h) * window;
  const int32_t* window_code = state.window_code + g * window;
  const int32_t retired = args.Retired(n, g), entering = args.codes[n * kv_heads + g];
  const auto count = [&](int64_t s) { return state.count[g * codes + s] + (s == retired ? 1 : 0); };
  const auto slot = [&](int64_t distance) { return (position - distance) % window; };
  const auto score = [&](int64_t distance) {
    const int32_t code = distance == 0 ? entering : window_code[slot(distance)];
    return code_scores[code] + position_scores[distance];
  };

  float largest = -INFINITY;
  for (int64_t s = threadIdx.x; s < codes; s += kStartThreads) {
    if (count(s) > 0) largest = Max()(largest, code_scores[s]);
  }
  for (int64_t d = threadIdx.x; d < recent; d += kStartThreads) largest = Max()(largest, score(d));
  largest = BlockReduce(largest, partial, Max());

  float* weights = args.weights + (n * args.heads + h) * args.Rows();
  float sum = 0;
  for (int64_t s = threadIdx.x; s < codes; s += kStartThreads) {
    const float weight = count(s) > 0 ? expf(code_scores[s] - largest) : 0;
    weights[s] = weight;
    sum = fmaf(weight, static_cast<float>(count(s)), sum);
  }
  for (int64_t d = threadIdx.x; d < window; d += kStartThreads) {
    if (d < recent) {
      const float weight = expf(score(d) - largest);
      weights[codes + slot(d)] = weight;
      sum += weight;
    } else {
      weights[codes + d] = 0;  // no position has taken this slot yet
    }
  }
  sum = BlockReduce(sum, partial, Add());
  if (threadIdx.x == 0) args.denominator[n * args.heads + h] = sum;
}

// Column c of head g: the value that leaves goes to U, the new one takes its place.
template <typename T>
__device__ inline void AppendValue(const Decode& args, int64_t n, int64_t g, int64_t c) {
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

// Blocks of session y: weights of a head each, then columns of a key/value head each.
template <typename T>
__global__ void __launch_bounds__(kStartThreads) StartKernel(Decode args) {
  struct Shared {
    float partial[kStartThreads / kWarp];
  };
  const int64_t n = blockIdx.y, block = blockIdx.x;
  LetSuccessorBegin();
  WaitForPredecessor();
  if (args.states[n].none()) return;
  if (block < args.heads) {
    ComputeWeights(args, n, block, BlockShared<Shared>().partial);
    return;
  }
  const int64_t g = (block - args.heads) / args.AppendBlocks();
  const int64_t c = (block - args.heads) % args.AppendBlocks() * kStartThreads + threadIdx.x;
  if (c < args.shape.value) AppendValue<T>(args, n, g, c);
}

// kAligned: V is a multiple of kPerLane, so that lanes load 16 bytes of U at once.
template <typename T, bool kAligned>
struct RowLoader {
  static __device__ void Load(const T* row, int64_t left, float (&values)[kPerLane]) {
    if constexpr (kAligned) {
      struct alignas(sizeof(T) * kPerLane) Pack {
        T element[kPerLane];
      };
      const Pack pack = *reinterpret_cast<const Pack*>(row);
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) values[i] = Widen(pack.element[i]);
    } else {
      for (int i = 0; i < kPerLane; ++i) values[i] = i < left ? Widen(row[i]) : 0;
    }
  }
};

// What the first kernel still read: the code and the counts of the position that enters.
__device__ inline void EnterCode(const Decode& args, int64_t n, int64_t g) {
  if (const int32_t code = args.Retired(n, g); code != kNoCode) {
    ++args.states[n].count[g * args.shape.codes + code];
  }
  args.CodeSlot(n, g) = args.codes[n * args.shape.kv_heads + g];
}

template <typename T, bool kAligned>
__global__ void __launch_bounds__(kThreads) ValuesKernel(Decode args) {
  struct Shared {
    float weight[kRows];
    float sum[kWarps][kColumns];
    uint32_t ticket;
  };
  LetSuccessorBegin();
  WaitForPredecessor();
  Shared& shared = BlockShared<Shared>();
  const int64_t splits = args.Splits(), rows = args.Rows(), values = args.shape.value;
  const int64_t split = blockIdx.x % splits;
  const int64_t column_block = static_cast<int64_t>(blockIdx.x) / splits;
  const int64_t first = column_block * kColumns, column = first + LaneId() * kPerLane;
  const int64_t n = blockIdx.y / args.heads, h = blockIdx.y % args.heads;
  const int64_t shared_by = args.heads / args.shape.kv_heads, g = h / shared_by;
  const int64_t output = n * args.heads + h;
  const VqState& state = args.states[n];
  // A thread a column, from here on: the block's 128.
  const int64_t own = first + threadIdx.x;
  const bool owns = threadIdx.x < kColumns && own < values;
  if (state.none()) {
    if (split == 0 && owns) args.out[output * values + own] = 0;
    return;
  }
  if (blockIdx.x == 0 && h % shared_by == 0 && threadIdx.x == 0) EnterCode(args, n, g);
  const float* sums = state.sum + g * args.shape.codes * values;
  const T* window = static_cast<const T*>(state.window_value) + g * args.shape.window * values;

  const float* weights = args.weights + output * rows;
  for (int i = static_cast<int>(threadIdx.x); i < kRows; i += kThreads) {
    const int64_t row = split * kRows + i;
    shared.weight[i] = row < rows ? weights[row] : 0;
  }
  __syncthreads();

  // All loads of a lane are on their way before the first is used.
  float sum[kPerLane] = {};
  if (column < values) {
    float weight[kRowsPerWarp], value[kRowsPerWarp][kPerLane];
#pragma unroll
    for (int i = 0; i < kRowsPerWarp; ++i) {
      const int at = i * kWarps + WarpId();
      const int64_t row = split * kRows + at;
      weight[i] = shared.weight[at];
      if (weight[i] == 0) {
        for (float& v : value[i]) v = 0;
      } else if (row < args.shape.codes) {
        RowLoader<float, kAligned>::Load(sums + row * values + column, values - column, value[i]);
      } else {
        RowLoader<T, kAligned>::Load(window + (row - args.shape.codes) * values + column,
                                     values - column, value[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < kRowsPerWarp; ++i) {
#pragma unroll
      for (int c = 0; c < kPerLane; ++c) sum[c] = fmaf(weight[i], value[i][c], sum[c]);
    }
  }
  for (int c = 0; c < kPerLane; ++c) shared.sum[WarpId()][LaneId() * kPerLane + c] = sum[c];
  __syncthreads();
  float* partial = args.partial + output * splits * values + own;
  if (owns) {
    float total = shared.sum[0][threadIdx.x];
    for (int warp = 1; warp < kWarps; ++warp) total += shared.sum[warp][threadIdx.x];
    partial[split * values] = total;
  }
  uint32_t* ticket = args.tickets + output * args.ColumnBlocks() + column_block;
  if (!LastToArrive(ticket, splits, shared.ticket) || !owns) return;
  float total = partial[0];
  for (int64_t s = 1; s < splits; ++s) total += partial[s * values];
  args.out[output * values + own] = total / args.denominator[output];
}

template <typename T>
absl::Status Run(Device& device, const Decode& args, int64_t sessions) {
  const absl::Status status =
      Launch("VqDecodeStart", device,
             {.blocks = args.heads + args.shape.kv_heads * args.AppendBlocks(),
              .blocks_y = sessions,
              .threads = kStartThreads,
              .overlaps = true},
             StartKernel<T>, args);
  if (!status.ok()) return status;
  const LaunchShape shape{.blocks = args.ColumnBlocks() * args.Splits(),
                          .blocks_y = sessions * args.heads,
                          .threads = kThreads,
                          .overlaps = true};
  return args.shape.value % kPerLane == 0
             ? Launch("VqDecodeValues", device, shape, ValuesKernel<T, true>, args)
             : Launch("VqDecodeValues", device, shape, ValuesKernel<T, false>, args);
}

}  // namespace

absl::Status CudaVqDecodeAttention(Device& device, const VqDecodeAttentionArgs& args) {
  const int64_t sessions = args.code_scores.dim(0), heads = args.code_scores.dim(1);
  if (sessions == 0) return absl::OkStatus();
  Decode decode{.shape = args.shape,
                .states = args.states.data,
                .positions = args.positions.data,
                .heads = heads,
                .code_scores = args.code_scores.data,
                .position_scores = args.position_scores.data,
                .codes = args.codes.data,
                .v = args.v.data,
                .out = args.out.data};
  const int64_t rows = sessions * heads;
  CudaDevice& cuda = AsCuda(device);
  absl::StatusOr<float*> weights = cuda.Scratch<float>(1, rows * (decode.Rows() + 1));
  if (!weights.ok()) return weights.status();
  absl::StatusOr<float*> partial =
      cuda.Scratch<float>(2, rows * decode.Splits() * args.shape.value);
  if (!partial.ok()) return partial.status();
  absl::StatusOr<uint32_t*> tickets = cuda.Tickets(rows * decode.ColumnBlocks());
  if (!tickets.ok()) return tickets.status();
  decode.weights = *weights;
  decode.denominator = *weights + rows * decode.Rows();
  decode.partial = *partial;
  decode.tickets = *tickets;
  return args.shape.value_dtype == DType::kFloat32 ? Run<float>(device, decode, sessions)
                                                   : Run<BFloat16>(device, decode, sessions);
}

}  // namespace tvq::TVQ_CUDA
