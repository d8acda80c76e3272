// Attention of one new position of each of N sessions over its constant-size state, all rows of
// which are read exactly; vq_reduced.cuh has what else there is.
//
//   w_s = exp(code_score[s] - m) for codes with n[s] > 0      w_d = exp(score of distance d - m)
//   out = (sum_s w_s U[s] + sum_d w_d v_d) / (sum_s w_s n[s] + sum_d w_d)
//
// One kernel, or two. A block takes 64 of the S + W rows and 128 columns of a session and key/value
// head, for all query heads that share it: every row of U (4 V bytes) and of the window (2 or 4 V)
// moves once, which is nearly all that moves, and even one session fills the GPU. It turns the
// scores of its rows into weights relative to their largest, by the codes and counts that the state
// will have when the position has entered it, and reads the rows as they will be then: of the row
// that the value which leaves the window retires to, the sum of both, and the new value instead of
// the one that it replaces. Weights come to the same for every piece of columns: of more sessions
// than fill the GPU a kernel ahead computes them once, so that blocks wait less; the bits are the
// same. The last block to arrive for a piece of columns adds what the blocks left, each scaled to
// the largest score of all, in their order (as the parts of a split softmax are added: Dao et al.
// 2023, Flash-Decoding), and writes the changes down, which nobody reads by then; the last of those
// writes the codes and counts. Rows on their way from memory do not wait for the kernel before:
// they are asked into the second cache ahead of that. Shapes alone decide on splits: a session's
// bits do not depend on N.
#include "kernels/cuda/tickets.cuh"
#include "kernels/cuda/vq_decode.cuh"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kPerLane = 4;                 // columns
constexpr int kColumns = kWarp * kPerLane;  // of a block
constexpr int kHeadsAtOnce = 4;             // where several share a key/value head
// Blocks that a GPU runs about at once; from so many on weights have a kernel of their own.
#if defined(TVQ_CUDA_HOST)
constexpr int64_t kManyBlocks = 8;  // so that tests reach both forms
#else
constexpr int64_t kManyBlocks = 1024;
#endif

__host__ __device__ inline int64_t ColumnBlocks(const VqDecode& args) {
  return (args.shape.value + kColumns - 1) / kColumns;
}

// A session's key/value head, as a block sees it.
struct Place {
  int64_t n, g;
  int32_t codes, window;
  int32_t slot;     // of the window, which the position takes
  int32_t recent;   // slots that are somebody's then
  bool retires;     // a value leaves the window, and others may have before
  int32_t retired;  // its code; not known ahead of the wait

  // Whether a row is there, and its values lie in memory.
  __device__ bool IsRead(int32_t row) const {
    return row < codes ? retires : row - codes < recent && row - codes != slot;
  }
};

template <typename T>
__device__ inline const T* WindowRow(const VqDecode& args, const Place& at, int32_t slot) {
  return static_cast<const T*>(args.states[at.n].window_value) +
         (at.g * at.window + slot) * args.shape.value;
}

// The score of a row and how many positions it stands for, 0: it is nobody's.
struct RowScore {
  float score = -INFINITY;
  float count = 0;
};
__device__ inline RowScore ScoreOf(const VqDecode& args, const Place& at, int64_t h, int32_t row) {
  const VqState& state = args.states[at.n];
  const float* code_scores = args.code_scores + (at.n * args.heads + h) * at.codes;
  if (row < at.codes) {
    const int64_t count = state.count[at.g * at.codes + row] + (row == at.retired ? 1 : 0);
    return count > 0 ? RowScore{code_scores[row], static_cast<float>(count)} : RowScore{};
  }
  const int32_t slot = row - at.codes;
  if (slot >= at.recent) return {};
  const int32_t distance = slot <= at.slot ? at.slot - slot : at.slot - slot + at.window;
  const int32_t code = distance == 0 ? args.codes[at.n * args.shape.kv_heads + at.g]
                                     : state.window_code[at.g * at.window + slot];
  const float* position_scores = args.position_scores + (at.n * args.heads + h) * at.window;
  return {code_scores[code] + position_scores[distance], 1};
}

// Of kReadRows rows together.
struct RowsWeight {
  float largest;  // score, -inf: none is there
  float sum;      // of the weights of their positions, relative to that
};

// Weights of the rows from `first` on for head h, relative to the largest score among them. For a
// warp, every lane of which receives what they come to.
__device__ inline RowsWeight WeighRows(const VqDecode& args, const Place& at, int64_t h,
                                       int32_t first, float* weights) {
  static_assert(kReadRows == 2 * kWarp);
  const int32_t rows = at.codes + at.window;
  RowScore own[2];
  float largest = -INFINITY, sum = 0;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int32_t row = first + i * kWarp + LaneId();
    if (row < rows) own[i] = ScoreOf(args, at, h, row);
    largest = Max()(largest, own[i].score);
  }
  largest = WarpReduce(largest, Max());
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float weight = own[i].count > 0 ? expf(own[i].score - largest) : 0;
    weights[i * kWarp + LaneId()] = weight;
    sum = fmaf(weight, own[i].count, sum);
  }
  return {largest, WarpReduce(sum, Add())};
}

// What blocks leave, for the last of them or for the kernel behind.
struct Parts {
  float* sum;          // [N, H, column blocks, splits][kColumns]
  RowsWeight* weight;  // [N, H, column blocks, splits], or of all columns [N, H, splits]
  float* row_weight;   // [N, H, splits][kReadRows], or null: blocks weigh their rows themselves
};

__device__ inline Place PlaceOf(const VqDecode& args, int64_t unit) {
  Place at{.n = unit / args.shape.kv_heads,
           .g = unit % args.shape.kv_heads,
           .codes = static_cast<int32_t>(args.shape.codes),
           .window = static_cast<int32_t>(args.shape.window)};
  const int64_t position = args.states[at.n].none() ? 0 : args.positions[at.n];
  at.slot = static_cast<int32_t>(position % at.window);
  at.retires = position >= at.window;
  at.recent = at.retires ? at.window : at.slot + 1;
  return at;
}

// A warp a split of a head, of session y.
__global__ void __launch_bounds__(kReadThreads) WeighKernel(VqDecode args, Parts parts) {
  LetSuccessorBegin();
  const int64_t n = blockIdx.y, splits = args.Splits();
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kReadWarps + WarpId();
  const int64_t h = index / splits, split = index % splits;
  const int64_t g = h / (args.heads / args.shape.kv_heads);
  WaitForPredecessor();
  if (h >= args.heads || args.states[n].none()) return;
  Place at = PlaceOf(args, n * args.shape.kv_heads + g);
  at.retired = args.Retired(n, g);
  const int64_t part = (n * args.heads + h) * splits + split;
  const RowsWeight weight = WeighRows(args, at, h, static_cast<int32_t>(split) * kReadRows,
                                      parts.row_weight + part * kReadRows);
  if (LaneId() == 0) parts.weight[part] = weight;
}

// kAligned: see LoadRow. kHeads: at once, of those that share a key/value head. kWeighed: by the
// kernel ahead.
template <typename T, bool kAligned, int kHeads, bool kWeighed>
__global__ void __launch_bounds__(kReadThreads, 3) AttendKernel(VqDecode args, Parts parts) {
  struct Shared {
    float weight[kHeads][kReadRows];
    float sum[kHeads][kReadWarps][kColumns];
    uint32_t ticket;
  };
  Shared& shared = BlockShared<Shared>();
  const int64_t values = args.shape.value;
  const auto splits = static_cast<int32_t>(args.Splits());
  const auto column_blocks = static_cast<int32_t>(ColumnBlocks(args));
  const int32_t split = static_cast<int32_t>(blockIdx.x) % splits;
  const int32_t column_block = static_cast<int32_t>(blockIdx.x) / splits;
  const int32_t first_row = split * kReadRows + WarpId();  // of the warp; then every kReadWarps-th
  const int64_t first_column = int64_t{column_block} * kColumns;
  const int64_t column = first_column + LaneId() * kPerLane;
  const int64_t unit = blockIdx.y, shared_by = args.heads / args.shape.kv_heads;

  // States and positions come by a copy ahead of the chain, not from a kernel.
  LetSuccessorBegin();
  Place at = PlaceOf(args, unit);
  const VqState& state = args.states[at.n];
  const bool none = state.none();
  const int32_t rows = at.codes + at.window;
  const auto sum_row = [&](int32_t row) {
    return state.sum + (at.g * at.codes + row) * values + column;
  };
  if (!none && column < values) {
#pragma unroll
    for (int i = 0; i < kReadRowsPerWarp; ++i) {
      const int32_t row = first_row + i * kReadWarps;
      if (row >= rows || !at.IsRead(row)) continue;
      if (row < at.codes) {
        AskFor(sum_row(row));
      } else {
        AskFor(WindowRow<T>(args, at, row - at.codes) + column);
      }
    }
  }
  WaitForPredecessor();
  const int64_t first_head = at.n * args.heads + at.g * shared_by;  // of all sessions' heads
  if (none) {
    const int64_t own = first_column + threadIdx.x;
    if (split != 0 || threadIdx.x >= kColumns || own >= values) return;
    for (int64_t h = 0; h < shared_by; ++h) args.out[(first_head + h) * values + own] = 0;
    return;
  }
  at.retired = args.Retired(at.n, at.g);

  // All loads of a lane are on their way before the first is used.
  float value[kReadRowsPerWarp][kPerLane] = {};
  if (column < values) {
#pragma unroll
    for (int i = 0; i < kReadRowsPerWarp; ++i) {
      const int32_t row = first_row + i * kReadWarps;
      if (row >= rows) continue;
      if (at.IsRead(row)) {
        if (row < at.codes) {
          LoadRow<kPerLane, kAligned>(sum_row(row), values - column, value[i]);
        } else {
          LoadRow<kPerLane, kAligned>(WindowRow<T>(args, at, row - at.codes) + column,
                                      values - column, value[i]);
        }
      } else if (row - at.codes == at.slot) {
        LoadRow<kPerLane, kAligned>(args.v + unit * values + column, values - column, value[i]);
        for (float& v : value[i]) v = Stored<T>(v);
      }
    }
  }
  const auto sums_of = [&](int64_t h, int32_t s) {
    return parts.sum + (((first_head + h) * column_blocks + column_block) * splits + s) * kColumns;
  };
  const auto weight_of = [&](int64_t h, int32_t s) -> RowsWeight& {
    const int64_t of_head = first_head + h;
    return parts.weight[(kWeighed ? of_head : of_head * column_blocks + column_block) * splits + s];
  };
  for (int64_t h0 = 0; h0 < shared_by; h0 += kHeads) {
    if constexpr (kWeighed) {
      for (int i = static_cast<int>(threadIdx.x); i < kHeads * kReadRows; i += kReadThreads) {
        const int head = i / kReadRows;
        if (h0 + head >= shared_by) break;
        const int64_t part = (first_head + h0 + head) * splits + split;
        shared.weight[head][i % kReadRows] = parts.row_weight[part * kReadRows + i % kReadRows];
      }
    } else if (const int64_t h = h0 + WarpId(); WarpId() < kHeads && h < shared_by) {
      const RowsWeight weight =
          WeighRows(args, at, at.g * shared_by + h, split * kReadRows, shared.weight[WarpId()]);
      if (LaneId() == 0) weight_of(h, split) = weight;
    }
    if (h0 == 0 && at.retired != kNoCode && column < values) {
#pragma unroll
      for (int i = 0; i < kReadRowsPerWarp; ++i) {
        if (first_row + i * kReadWarps != at.retired) continue;
        float leaving[kPerLane], carry[kPerLane];
        LoadRow<kPerLane, kAligned>(WindowRow<T>(args, at, at.slot) + column, values - column,
                                    leaving);
        LoadRow<kPerLane, kAligned>(state.carry + (at.g * at.codes + at.retired) * values + column,
                                    values - column, carry);
#pragma unroll
        for (int c = 0; c < kPerLane; ++c) AddTwoSum(leaving[c], value[i][c], carry[c]);
      }
    }
    __syncthreads();
#pragma unroll
    for (int head = 0; head < kHeads; ++head) {
      if (h0 + head >= shared_by) break;
      float sum[kPerLane] = {};
#pragma unroll
      for (int i = 0; i < kReadRowsPerWarp; ++i) {
        const float weight = shared.weight[head][i * kReadWarps + WarpId()];
#pragma unroll
        for (int c = 0; c < kPerLane; ++c) sum[c] = fmaf(weight, value[i][c], sum[c]);
      }
#pragma unroll
      for (int c = 0; c < kPerLane; ++c) {
        shared.sum[head][WarpId()][LaneId() * kPerLane + c] = sum[c];
      }
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kHeads * kColumns; i += kReadThreads) {
      const int head = i / kColumns, c = i % kColumns;
      if (h0 + head >= shared_by) break;
      float total = shared.sum[head][0][c];
      for (int warp = 1; warp < kReadWarps; ++warp) total += shared.sum[head][warp][c];
      sums_of(h0 + head, split)[c] = total;
    }
  }

  uint32_t* ticket = args.tickets + unit * (column_blocks + 1);
  if (!LastToArrive(ticket + 1 + column_block, splits, shared.ticket)) return;
  for (int64_t i = threadIdx.x; i < shared_by * kColumns; i += kReadThreads) {
    const int64_t h = i / kColumns, c = i % kColumns;
    if (first_column + c >= values) continue;
    float largest = -INFINITY, total = 0, weight = 0;
    for (int32_t s = 0; s < splits; ++s) largest = Max()(largest, weight_of(h, s).largest);
    for (int32_t s = 0; s < splits; ++s) {
      const float scale = expf(weight_of(h, s).largest - largest);
      total = fmaf(scale, sums_of(h, s)[c], total);
      weight = fmaf(scale, weight_of(h, s).sum, weight);
    }
    args.out[(first_head + h) * values + first_column + c] = total / weight;
  }
  const int64_t own = first_column + threadIdx.x;
  if (threadIdx.x < kColumns && own < values) AppendValue<T>(args, at.n, at.g, own);
  if (!LastToArrive(ticket, column_blocks, shared.ticket)) return;
  if (threadIdx.x == 0) EnterCode(args, at.n, at.g);
}

template <typename T, int kHeads, bool kWeighed>
absl::Status Attend(Device& device, const LaunchShape& shape, const VqDecode& args,
                    const Parts& parts) {
  return args.shape.value % kPerLane == 0
             ? Launch("VqDecodeAttention", device, shape, AttendKernel<T, true, kHeads, kWeighed>,
                      args, parts)
             : Launch("VqDecodeAttention", device, shape, AttendKernel<T, false, kHeads, kWeighed>,
                      args, parts);
}

template <typename T>
absl::Status Run(Device& device, const VqDecode& args, const Parts& parts, int64_t sessions) {
  const LaunchShape shape{.blocks = ColumnBlocks(args) * args.Splits(),
                          .blocks_y = sessions * args.shape.kv_heads,
                          .threads = kReadThreads,
                          .overlaps = true};
  const bool alone = args.heads == args.shape.kv_heads;
  if (parts.row_weight == nullptr) {
    return alone ? Attend<T, 1, false>(device, shape, args, parts)
                 : Attend<T, kHeadsAtOnce, false>(device, shape, args, parts);
  }
  const absl::Status status =
      Launch("VqDecodeWeights", device,
             {.blocks = (args.heads * args.Splits() + kReadWarps - 1) / kReadWarps,
              .blocks_y = sessions,
              .threads = kReadThreads,
              .overlaps = true},
             WeighKernel, args, parts);
  if (!status.ok()) return status;
  return alone ? Attend<T, 1, true>(device, shape, args, parts)
               : Attend<T, kHeadsAtOnce, true>(device, shape, args, parts);
}

}  // namespace

absl::Status CudaVqDecodeAttention(Device& device, const VqDecodeAttentionArgs& args) {
  const int64_t sessions = args.code_scores.dim(0), heads = args.code_scores.dim(1);
  if (sessions == 0) return absl::OkStatus();
  VqDecode decode{.shape = args.shape,
                  .states = args.states.data,
                  .positions = args.positions.data,
                  .heads = heads,
                  .code_scores = args.code_scores.data,
                  .position_scores = args.position_scores.data,
                  .codes = args.codes.data,
                  .v = args.v.data,
                  .out = args.out.data};
  if (args.shape.read != VqRead::kExact || args.skip_mass > 0) {
    return RunReducedDecode(device, args, decode);
  }
  if (!args.skipped_mass.empty() || !args.row_reads.empty()) {
    if (absl::Status s = ReportWholeReads(device, args, decode); !s.ok()) return s;
  }
  CudaDevice& cuda = AsCuda(device);
  const int64_t splits = decode.Splits(), units = sessions * args.shape.kv_heads;
  const bool many = units * ColumnBlocks(decode) * splits >= kManyBlocks;
  const int64_t split_heads = sessions * heads * splits;
  const int64_t sums = split_heads * ColumnBlocks(decode) * kColumns;
  absl::StatusOr<float*> sum = cuda.Scratch<float>(2, sums);
  if (!sum.ok()) return sum.status();
  // Weights of rows, then what those of a split come to.
  const int64_t row_weights = many ? split_heads * kReadRows : 0;
  const int64_t weights = many ? split_heads : split_heads * ColumnBlocks(decode);
  absl::StatusOr<float*> weight = cuda.Scratch<float>(1, row_weights + 2 * weights);
  if (!weight.ok()) return weight.status();
  const Parts parts{.sum = *sum,
                    .weight = reinterpret_cast<RowsWeight*>(*weight + row_weights),
                    .row_weight = many ? *weight : nullptr};
  absl::StatusOr<uint32_t*> tickets = cuda.Tickets(units * (ColumnBlocks(decode) + 1));
  if (!tickets.ok()) return tickets.status();
  decode.tickets = *tickets;
  return args.shape.value_dtype == DType::kFloat32 ? Run<float>(device, decode, parts, sessions)
                                                   : Run<BFloat16>(device, decode, parts, sessions);
}

}  // namespace tvq::TVQ_CUDA
