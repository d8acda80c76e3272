// Attention of one new position of each of N sessions over its constant-size state, all rows of
// which are read exactly; vq_reduced.cuh has what else there is.
//
//   w_s = exp(code_score[s] - m) for codes with n[s] > 0      w_d = exp(score of distance d - m)
//   out = (sum_s w_s U[s] + sum_d w_d v_d) / (sum_s w_s n[s] + sum_d w_d)
//
// A block takes a piece of the columns of a session and key/value head, for all query heads that
// share it, and one or several splits of the S + W rows, 64 each: every row of U (4 V bytes) and of
// the window (2 or 4 V) moves once, which is nearly all that moves. It turns the scores of its rows
// into weights relative to the largest of their split, by the codes and counts that the state will
// have when the position has entered it, and reads the rows as they will be then: of the row that
// the value which leaves the window retires to, the sum of both, which it writes down, and the new
// value instead of the one that it replaces. The last block to arrive for a piece of columns adds
// what the splits left, each scaled to the largest score of all, in their order (as the parts of a
// split softmax are added: Dao et al. 2023, Flash-Decoding); the last of those writes the codes and
// counts, which nobody reads by then.
//
// Blocks have two forms. Narrow ones take 128 columns, and their warps divide the rows of a split,
// so that even one session fills the GPU. Wide ones, where every multiprocessor has a split, take
// up to 1,536 columns, and a thread all rows of its own: they come as they lie in memory, and no
// sums meet in shared memory. Rows are on their way to there two batches ahead, each thread's own
// to where it alone reads them, so that nobody waits for another's; the first are asked into the
// second cache before the wait for the kernel before. A split's sums have the same order in both,
// and shapes alone say what a split is: a session's bits do not depend on N.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/common/async_copy.cuh"
#include "kernels/cuda/common/tickets.cuh"
#include "kernels/cuda/vq_attention/vq_decode_blocks.cuh"
#include "kernels/cuda/vq_attention/vq_decode_splits.cuh"
#include "kernels/ops/attention/vq_attention.h"

namespace tvq::TVQ_CUDA {
namespace {

// Columns of a row on their way to memory that this thread reads; see LoadRow.
template <bool kAligned, typename T>
__device__ inline void BringRow(const T* row, int64_t left, T* to) {
  if constexpr (kAligned) {
    constexpr int kBytes = sizeof(T) * kPerLane, kCopied = kBytes < 16 ? kBytes : 16;
#pragma unroll
    for (int i = 0; i < kBytes / kCopied; ++i) {
      constexpr int kElements = kCopied / static_cast<int>(sizeof(T));
      StartCopy<kCopied>(to + i * kElements, row + i * kElements);
    }
  } else {
    for (int i = 0; i < kPerLane && i < left; ++i) to[i] = row[i];
  }
}

// Columns of the new value to where a window's row lies.
template <bool kAligned, typename T>
__device__ inline void StoreRow(const float* value, int64_t left, T* to) {
  float columns[kPerLane];
  LoadRow<kPerLane, kAligned>(value, left, columns);
#pragma unroll
  for (int c = 0; c < kPerLane; ++c) {
    if (kAligned || c < left) StoreAs(columns[c], to + c);
  }
}

// The value that leaves the window is added to `row`, as it was read, and the row's sum and carry.
template <bool kAligned, typename T>
__device__ inline void Retire(const T* leaving, int64_t left, float* row, float* sum,
                              float* carry) {
  float added[kPerLane], total[kPerLane], rest[kPerLane];
  LoadRow<kPerLane, kAligned>(leaving, left, added);
  LoadRow<kPerLane, kAligned>(carry, left, rest);
  LoadRow<kPerLane, kAligned>(row, left, total);
#pragma unroll
  for (int c = 0; c < kPerLane; ++c) {
    if (!kAligned && c >= left) break;
    AddTwoSum(added[c], total[c], rest[c]);
    row[c] = total[c];
    sum[c] = total[c];
    carry[c] = rest[c];
  }
}

// One kernel, as another for the weights or for the sum of splits would cost each layer a launch
// and a wait, some microseconds in which memory is idle; and one function, as its parts are one
// thread's view of the same rows: they are on their way while it weighs, and each part hands the
// next what lies in registers and shared memory.
//
// kAligned: see LoadRow. kHeads: at once, of those that share a key/value head; where there are
// more, a block takes one split. kWide: blocks are, which have one head.
template <typename T, bool kAligned, int kHeads, bool kWide>
__global__ void __launch_bounds__(kWide ? kWideThreads : kReadThreads,
                                  kWide ? kWideBlocks : kNarrowBlocks)
    AttendKernel(VqDecode args, Parts parts) {
  struct Shared {
    float sum[kHeads][kWide ? 1 : kReadWarps][kWide ? 1 : kNarrowColumns];
    uint32_t ticket;
  };
  static_assert(!kWide || kHeads == 1);
  static_assert(int64_t{sizeof(Shared)} +
                    LaunchBytes(kWide, kStages, kHeads, kWide ? kMostWideSplits : kMostSplits) <=
                kMostSharedBytes);
  // Rows that a thread reads at a time: of a wide block neighbours, of a narrow one all that a
  // warp has of a split.
  constexpr int kBatch = kReadRowsPerWarp;
  constexpr int32_t kBatchesOfSplit = kWide ? kReadRows / kBatch : 1;
  static_assert(kBatch == kReadWarps);
  Shared& shared = BlockShared<Shared>();
  const int64_t values = args.shape.value;
  const auto width = static_cast<int32_t>(values), splits = static_cast<int32_t>(args.Splits());
  const auto threads = static_cast<int32_t>(blockDim.x);
  const int32_t column_block = static_cast<int32_t>(blockIdx.x) % parts.column_blocks;
  const int32_t group = static_cast<int32_t>(blockIdx.x) / parts.column_blocks;
  const int32_t first_split = splits * group / parts.groups;
  const int32_t own_splits = splits * (group + 1) / parts.groups - first_split;
  const int32_t first_row = first_split * kReadRows, batches = own_splits * kBatchesOfSplit;
  const int32_t first_column = column_block * parts.columns;
  const int32_t own_column = (kWide ? static_cast<int32_t>(threadIdx.x) : LaneId()) * kPerLane;
  const int32_t column = first_column + own_column, left = width - column;
  const auto unit = static_cast<int32_t>(blockIdx.y);
  const int32_t shared_by =
      kHeads == 1 ? 1
                  : static_cast<int32_t>(args.heads) / static_cast<int32_t>(args.shape.kv_heads);
  const int32_t first_head = unit * shared_by;  // of all sessions' heads

  // States and positions come by a copy ahead of the chain, not from a kernel.
  LetSuccessorBegin();
  Place at = PlaceOf(args, unit);
  const VqState state = args.states[at.n];
  const bool none = state.none();
  const int32_t rows = at.codes + at.window;
  const auto of_head = [&](auto* array, int64_t size) {
    return none ? array : array + at.g * size;
  };
  const auto of_columns = [&](auto* array, int64_t size) {
    return none ? array : of_head(array, size * values) + column;
  };
  float* sums = of_columns(state.sum, at.codes);
  T* recent = of_columns(static_cast<T*>(state.window_value), at.window);
  int32_t* codes = of_head(state.window_code, at.window);
  // Row j of a batch is j * kStep behind its first.
  constexpr int32_t kStep = kWide ? 1 : kReadWarps;
  const auto row_of = [&](int32_t batch, int j) {
    return first_row + batch * (kWide ? kBatch : kReadRows) + (kWide ? 0 : WarpId()) + j * kStep;
  };
  const auto is_read = [&](int32_t row) { return row < rows && at.IsRead(row); };
  const auto sum_row = [&](int32_t row) { return sums + int64_t{row} * width; };
  const auto recent_row = [&](int32_t slot) { return recent + int64_t{slot} * width; };
  // What nearly all batches are: rows of U alone, or of a window that is full.
  const auto is_sums = [&](int32_t batch) { return row_of(batch, kBatch - 1) < at.codes; };
  const auto is_full_window = [&](int32_t batch) {
    return row_of(batch, 0) >= at.codes && row_of(batch, kBatch - 1) - at.codes < at.recent;
  };
  if (!none) {
    for (int32_t batch = 0; batch < min(batches, kWide ? kStages : 1) && left > 0; ++batch) {
#pragma unroll 4
      for (int j = 0; j < kBatch; ++j) {
        const int32_t row = row_of(batch, j);
        if (!is_read(row)) continue;
        if (row < at.codes) {
          AskFor(sum_row(row));
        } else {
          AskFor(recent_row(row - at.codes));
        }
      }
    }
    constexpr int32_t kLine = 16;  // counts
    const int32_t end = min(first_row + own_splits * kReadRows, rows);
    for (int32_t row = first_row + static_cast<int32_t>(threadIdx.x) * kLine; row < end;
         row += threads * kLine) {
      if (row < at.codes) {
        AskFor(state.count + at.g * at.codes + row);
      } else {
        AskFor(codes + row - at.codes);
      }
    }
    if (threadIdx.x == 0) AskFor(codes + at.slot);
  }
  WaitForPredecessor();
  if (none) {
    if (group != 0) return;
    for (auto i = static_cast<int32_t>(threadIdx.x); i < shared_by * parts.columns; i += threads) {
      const int32_t h = i / parts.columns, c = first_column + i % parts.columns;
      if (c < width) args.out[(first_head + h) * values + c] = 0;
    }
    return;
  }

  // A thread's part of the rows of kStages batches, which it alone reads, and all weights.
  constexpr int32_t kRowFloats = (kWide ? kWideThreads : kReadThreads) * kPerLane;
  float* ring = LaunchShared<float>() + threadIdx.x * kPerLane;
  float* weights = LaunchShared<float>() + min(batches, kStages) * kBatch * kRowFloats;
  const auto place = [&](int32_t batch, int j) {
    return ring + batch % kStages * (kBatch * kRowFloats) + j * kRowFloats;
  };
  const auto recent_place = [&](int32_t batch, int j) {
    return reinterpret_cast<T*>(place(batch, j));
  };
  const auto bring_rows = [&](const auto* from, auto* to) {
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      BringRow<kAligned>(from, left, to);
      from += kStep * width;
      to += kRowFloats * sizeof(float) / sizeof(*to);
    }
  };
  const auto bring = [&](int32_t batch) {
    if (batch < batches && left > 0) {
      const int32_t row = row_of(batch, 0);
      if (is_sums(batch)) {
        if (at.retires) bring_rows(sum_row(row), place(batch, 0));
      } else if (is_full_window(batch)) {
        bring_rows(recent_row(row - at.codes), recent_place(batch, 0));
      } else {
#pragma unroll 1
        for (int j = 0; j < kBatch; ++j) {
          const int32_t other = row_of(batch, j);
          if (!is_read(other)) continue;
          if (other < at.codes) {
            BringRow<kAligned>(sum_row(other), left, place(batch, j));
          } else {
            BringRow<kAligned>(recent_row(other - at.codes), left, recent_place(batch, j));
          }
        }
      }
    }
    CloseCopies();
  };
  for (int32_t batch = 0; batch < kStages; ++batch) bring(batch);
  at.retired = at.retires ? codes[at.slot] : kNoCode;
  const float* new_value = args.v + unit * values + column;

  const auto part_of = [&](int32_t h, int32_t split) {
    return (int64_t{first_head + h} * parts.column_blocks + column_block) * splits + split;
  };
  const auto weigh = [&](int32_t h0) {
    for (int32_t i = WarpId(); i < kHeads * own_splits; i += threads / kWarp) {
      const int32_t h = h0 + i / own_splits;
      if (h >= shared_by) break;
      const int32_t split = first_split + i % own_splits;
      const RowsWeight weight =
          WeighRows(args, at, at.g * shared_by + h, split * kReadRows, weights + i * kReadRows);
      if (LaneId() == 0) parts.weight[part_of(h, split)] = weight;
    }
  };
  weigh(0);
  if constexpr (kWide) __syncthreads();

  // Where the position enters: the row that the value which leaves the window retires to, or, as
  // long as none does, its own. Whoever reads that row writes it; what others read of it they throw
  // away. In one number, which of the thread's rows it is: few registers are left.
  constexpr uint32_t kAnothers = ~0U;
  const auto find = [&](int32_t row) {
    const int32_t i = row - first_row;
    if (i < 0 || (!kWide && i % kReadWarps != WarpId())) return kAnothers;
    return static_cast<uint32_t>(kWide ? i : i / kReadWarps);
  };
  const int32_t own_row = at.codes + at.slot;
  const uint32_t own = find(own_row), entered = find(at.retired != kNoCode ? at.retired : own_row);
  const auto is_in = [&](uint32_t row, int32_t batch) {
    return row / kBatch == static_cast<uint32_t>(batch);
  };
  const auto enter = [&](int32_t batch) {
    if (is_in(own, batch)) StoreRow<kAligned>(new_value, left, recent_place(batch, own % kBatch));
    if (!is_in(entered, batch)) return;
    if (at.retired != kNoCode) {
      float* carry = of_columns(state.carry, at.codes) + int64_t{at.retired} * width;
      Retire<kAligned>(recent_row(at.slot), left, place(batch, entered % kBatch),
                       sum_row(at.retired), carry);
    }
    StoreRow<kAligned>(new_value, left, recent_row(at.slot));
  };
  // use(j, value) for the rows of a batch.
  const auto for_rows = [&](const auto* from, const auto& use) {
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      float value[kPerLane];
      LoadRow<kPerLane, kAligned>(from, left, value);
      use(j, value);
      from += kRowFloats * sizeof(float) / sizeof(*from);
    }
  };
  const auto for_batch = [&](int32_t batch, const auto& use) {
    if (left <= 0) return;
    const float* of_sums = place(batch, 0);
    const T* of_window = recent_place(batch, 0);
    if (is_sums(batch)) {
      if (at.retires) for_rows(of_sums, use);
    } else if (is_full_window(batch)) {
      for_rows(of_window, use);
    } else {
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        const int32_t row = row_of(batch, j);
        float value[kPerLane] = {};
        if (row < at.codes) {
          if (at.retires) LoadRow<kPerLane, kAligned>(of_sums, left, value);
        } else if (row - at.codes < at.recent) {
          LoadRow<kPerLane, kAligned>(of_window, left, value);
        }
        use(j, value);
        of_sums += kRowFloats;
        of_window += kRowFloats * sizeof(float) / sizeof(T);
      }
    }
  };
  // Both forms add the rows of a split in the same order: every eighth to one of eight sums.
  if constexpr (kWide) {
    float sum[kBatch][kPerLane] = {};
    for (int32_t batch = 0; batch < batches; ++batch) {
      WaitForCopies<kStages - 1>();
      if (left > 0) enter(batch);
      float weight[kBatch];
      memcpy(weight, __builtin_assume_aligned(weights + batch * kBatch, 16), sizeof(weight));
      for_batch(batch, [&](int j, const float(&value)[kPerLane]) {
#pragma unroll
        for (int c = 0; c < kPerLane; ++c) sum[j][c] = fmaf(weight[j], value[c], sum[j][c]);
      });
      bring(batch + kStages);
      if (batch % kBatchesOfSplit != kBatchesOfSplit - 1) continue;
      float* to = parts.sum + part_of(0, first_split + batch / kBatchesOfSplit) * parts.columns +
                  own_column;
#pragma unroll
      for (int c = 0; c < kPerLane; ++c) {
        float total = sum[0][c];
#pragma unroll
        for (int j = 1; j < kBatch; ++j) total += sum[j][c];
        to[c] = total;
#pragma unroll
        for (int j = 0; j < kBatch; ++j) sum[j][c] = 0;
      }
    }
  } else {
    for (int32_t batch = 0; batch < batches; ++batch) {
      WaitForCopies<kStages - 1>();
      float value[kBatch][kPerLane] = {};
      if (left > 0) enter(batch);
      for_batch(batch, [&](int j, const float(&row)[kPerLane]) {
#pragma unroll
        for (int c = 0; c < kPerLane; ++c) value[j][c] = row[c];
      });
      bring(batch + kStages);
      for (int32_t h0 = 0; h0 < shared_by; h0 += kHeads) {
        if (h0 > 0) weigh(h0);
        __syncthreads();
        const float* of_rows = weights + batch * kReadRows + WarpId();
#pragma unroll
        for (int head = 0; head < kHeads; ++head) {
          if (h0 + head >= shared_by) break;
          float sum[kPerLane] = {};
#pragma unroll
          for (int j = 0; j < kBatch; ++j) {
            const float weight = of_rows[head * own_splits * kReadRows + j * kReadWarps];
#pragma unroll
            for (int c = 0; c < kPerLane; ++c) sum[c] = fmaf(weight, value[j][c], sum[c]);
          }
#pragma unroll
          for (int c = 0; c < kPerLane; ++c) shared.sum[head][WarpId()][own_column + c] = sum[c];
        }
        __syncthreads();
        for (int i = static_cast<int>(threadIdx.x); i < kHeads * kNarrowColumns;
             i += kReadThreads) {
          const int head = i / kNarrowColumns, c = i % kNarrowColumns;
          if (h0 + head >= shared_by) break;
          float total = shared.sum[head][0][c];
#pragma unroll
          for (int warp = 1; warp < kReadWarps; ++warp) total += shared.sum[head][warp][c];
          parts.sum[part_of(h0 + head, first_split + batch) * kNarrowColumns + c] = total;
        }
      }
    }
  }

  uint32_t* ticket = args.tickets + int64_t{unit} * (parts.column_blocks + 1);
  if (parts.groups == 1) {
    __syncthreads();
  } else if (!LastToArrive(ticket + 1 + column_block, parts.groups, shared.ticket)) {
    return;
  }
  // All blocks of this piece of columns have read the codes and counts, which the last piece to
  // come so far writes. By the last thread: in a narrow block with one head it has no output to add
  // up.
  if (static_cast<int32_t>(threadIdx.x) == threads - 1 &&
      (parts.column_blocks == 1 ||
       Draw(ticket) == static_cast<uint32_t>(parts.column_blocks) - 1)) {
    *ticket = 0;
    if (at.retired != kNoCode) ++state.count[at.g * at.codes + at.retired];
    codes[at.slot] = args.codes[unit];
  }
  const auto add_parts = [&]<int kOwn>(std::integral_constant<int, kOwn>, int32_t pitch, int32_t h,
                                       int32_t c) {
    const int64_t part = part_of(h, 0);
    AddParts<kOwn, kOwn == 1 || kAligned>(parts.weight + part, parts.sum + part * pitch + c, splits,
                                          pitch, width - first_column - c,
                                          args.out + (first_head + h) * values + first_column + c);
  };
  if constexpr (kWide) {
    add_parts(std::integral_constant<int, kPerLane>(), parts.columns, 0, own_column);
  } else {
#pragma unroll 1
    for (auto i = static_cast<int32_t>(threadIdx.x); i < shared_by * kNarrowColumns;
         i += kReadThreads) {
      add_parts(std::integral_constant<int, 1>(), kNarrowColumns, i / kNarrowColumns,
                i % kNarrowColumns);
    }
  }
}

template <typename T, int kHeads, bool kWide>
absl::Status Attend(Device& device, const LaunchShape& shape, const VqDecode& args,
                    const Parts& parts) {
  const auto kernel = args.shape.value % kPerLane == 0 ? AttendKernel<T, true, kHeads, kWide>
                                                       : AttendKernel<T, false, kHeads, kWide>;
  return Launch("VqDecodeAttention", device, shape, kernel, args, parts);
}

template <typename T>
absl::Status Run(Device& device, const VqDecode& args, const Parts& parts, const Division& division,
                 int64_t units) {
  const int64_t own_splits = (args.Splits() + division.groups - 1) / division.groups;
  const bool alone = args.heads == args.shape.kv_heads;
  const int64_t heads = alone ? 1 : kHeadsAtOnce;
  const int64_t stages = division.wide ? kStages : std::min<int64_t>(own_splits, kStages);
  const int64_t bytes = LaunchBytes(division.wide, stages, heads, own_splits);
  const LaunchShape shape{.blocks = int64_t{division.column_blocks} * division.groups,
                          .blocks_y = units,
                          .threads = division.threads,
                          .shared_bytes = static_cast<int>(bytes),
                          .overlaps = true};
  if (division.wide) return Attend<T, 1, true>(device, shape, args, parts);
  return alone ? Attend<T, 1, false>(device, shape, args, parts)
               : Attend<T, kHeadsAtOnce, false>(device, shape, args, parts);
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
  const int64_t units = sessions * args.shape.kv_heads;
  const Division division = Divide(decode, units);
  const Workspace workspace = WorkspaceFor(decode, units, division);
  absl::StatusOr<float*> sum = cuda.Scratch<float>(2, workspace.sums);
  if (!sum.ok()) return sum.status();
  absl::StatusOr<RowsWeight*> weight = cuda.Scratch<RowsWeight>(1, workspace.weights);
  if (!weight.ok()) return weight.status();
  absl::StatusOr<uint32_t*> tickets = cuda.Tickets(workspace.tickets);
  if (!tickets.ok()) return tickets.status();
  decode.tickets = *tickets;
  const Parts parts{.sum = *sum,
                    .weight = *weight,
                    .columns = division.columns,
                    .column_blocks = division.column_blocks,
                    .groups = division.groups};
  return args.shape.value_dtype == DType::kFloat32
             ? Run<float>(device, decode, parts, division, units)
             : Run<BFloat16>(device, decode, parts, division, units);
}

}  // namespace tvq::TVQ_CUDA
