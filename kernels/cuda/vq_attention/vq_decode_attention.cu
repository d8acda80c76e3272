// Attention of one new position of each of N sessions over its constant-size state. It reads every
// row exactly. vq_reduced.cuh is for decode that reads the int8 copy or leaves rows out.
//
//   w_s = exp(code_score[s] - m) for codes with n[s] > 0      w_d = exp(score of distance d - m)
//   out = (sum_s w_s U[s] + sum_d w_d v_d) / (sum_s w_s n[s] + sum_d w_d)
//
// A block takes a piece of the columns of a session and key/value head, for all query heads that
// share it, and one or several splits of the S + W rows, 64 rows each. Every row of U (4 V bytes)
// and of the window (2 or 4 V) moves once, which is nearly all that moves. The block turns the
// scores of its rows into weights relative to the largest of their split. It uses the codes, counts
// and rows that the state will have when the position has entered it: it adds the value that leaves
// the window to the row of U that this value retires to, and writes that row. In place of the value
// that is replaced it uses the new one. The last block to arrive
// for a piece of columns adds the sums of the splits, each scaled to the largest score of all, in
// their order (as the parts of a split softmax are added: Dao et al. 2023, Flash-Decoding). The
// last of these last blocks writes the codes and counts, which are not read any more.
//
// Blocks have two forms. Narrow ones take 128 columns, and their warps divide the rows of a split,
// so that even one session fills the GPU. Wide ones are used where every multiprocessor has a
// split. They take up to 1,536 columns, and a thread takes all rows of its own columns: rows are
// read as they lie in memory, and no sums are added up in shared memory. Rows are copied to shared
// memory two batches ahead, each thread's own to a place that it alone reads, so that no thread
// waits for another's. The first rows are prefetched into the L2 cache before the wait for the
// kernel before. A split's sums have the same order in both forms, and splits follow from shapes
// alone: a session's bits do not depend on N.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/common/tickets.cuh"
#include "kernels/cuda/vq_attention/vq_decode_blocks.cuh"
#include "kernels/cuda/vq_attention/vq_decode_rows.cuh"
#include "kernels/cuda/vq_attention/vq_decode_splits.cuh"
#include "kernels/ops/attention/vq_attention.h"

namespace tvq::TVQ_CUDA {
namespace {

// Prefetches the counts and codes that the scores of the block's rows take, and the code that
// leaves.
__device__ inline void AskForCodes(const VqState& state, const Piece& piece, const Place& at) {
  constexpr int32_t kLine = 16;  // counts
  const int32_t* codes = state.window_code + at.g * at.window;
  const int32_t end = min(piece.FirstRow() + piece.own_splits * kReadRows, at.codes + at.window);
  for (int32_t row = piece.FirstRow() + static_cast<int32_t>(threadIdx.x) * kLine; row < end;
       row += static_cast<int32_t>(blockDim.x) * kLine) {
    if (row < at.codes) {
      AskFor(state.count + at.g * at.codes + row);
    } else {
      AskFor(codes + row - at.codes);
    }
  }
  if (threadIdx.x == 0) AskFor(codes + at.slot);
}

// Sets the output of a row that has no session to zero.
__device__ inline void FillZero(const VqDecode& args, const Parts& parts, const Piece& piece) {
  if (piece.group != 0) return;
  const auto width = static_cast<int32_t>(args.shape.value);
  for (auto i = static_cast<int32_t>(threadIdx.x); i < piece.shared_by * parts.columns;
       i += static_cast<int32_t>(blockDim.x)) {
    const int32_t h = i / parts.columns, c = piece.first_column + i % parts.columns;
    if (c < width) args.out[(piece.first_head + h) * args.shape.value + c] = 0;
  }
}

// Computes w_s and w_d of the block's rows for kHeads heads from h0 on, [kHeads, own splits,
// kReadRows].
template <int kHeads>
__device__ inline void Weigh(const VqDecode& args, const Parts& parts, const Piece& piece,
                             const Place& at, int32_t h0, float* weights) {
  for (int32_t i = WarpId(); i < kHeads * piece.own_splits;
       i += static_cast<int32_t>(blockDim.x) / kWarp) {
    const int32_t h = h0 + i / piece.own_splits;
    if (h >= piece.shared_by) break;
    const int32_t split = piece.first_split + i % piece.own_splits;
    const RowsWeight weight =
        WeighRows(args, at, at.g * piece.shared_by + h, split * kReadRows, weights + i * kReadRows);
    if (LaneId() == 0) parts.weight[piece.PartOf(parts, h, split)] = weight;
  }
}

// Computes sum_s w_s U[s] + sum_d w_d v_d over the rows of each of the block's splits, as they are
// when the position has entered. Both forms of blocks add rows in the same order: every eighth row
// to the same one of eight sums. A thread of a wide block has all eight sums of its columns.
template <typename T, bool kAligned>
__device__ inline void SumRowsWide(const Parts& parts, const Rows<T, kAligned, true>& rows,
                                   const Entry<T, kAligned, true>& entry, const float* weights) {
  constexpr int kBatch = Rows<T, kAligned, true>::kBatch;
  constexpr int32_t kBatchesOfSplit = Rows<T, kAligned, true>::kBatchesOfSplit;
  const Piece& piece = rows.piece;
  float sum[kBatch][kPerLane] = {};
  for (int32_t batch = 0; batch < rows.batches; ++batch) {
    WaitForCopies<kStages - 1>();
    if (piece.left > 0) entry.Enter(batch);
    float weight[kBatch];
    memcpy(weight, __builtin_assume_aligned(weights + batch * kBatch, 16), sizeof(weight));
    rows.ForBatch(batch, [&](int j, const float(&value)[kPerLane]) {
#pragma unroll
      for (int c = 0; c < kPerLane; ++c) sum[j][c] = fmaf(weight[j], value[c], sum[j][c]);
    });
    rows.Bring(batch + kStages);
    if (batch % kBatchesOfSplit != kBatchesOfSplit - 1) continue;
    const int32_t split = piece.first_split + batch / kBatchesOfSplit;
    float* to = parts.sum + piece.PartOf(parts, 0, split) * parts.columns + piece.own_column;
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
}

// A warp of a narrow block has one of the eight sums of a split; they are added up in shared
// memory.
template <typename T, bool kAligned, int kHeads>
__device__ inline void SumRowsNarrow(const VqDecode& args, const Parts& parts,
                                     const Rows<T, kAligned, false>& rows,
                                     const Entry<T, kAligned, false>& entry, float* weights,
                                     float (&sums)[kHeads][kReadWarps][kNarrowColumns]) {
  constexpr int kBatch = Rows<T, kAligned, false>::kBatch;
  const Piece& piece = rows.piece;
  for (int32_t batch = 0; batch < rows.batches; ++batch) {
    WaitForCopies<kStages - 1>();
    float value[kBatch][kPerLane] = {};
    if (piece.left > 0) entry.Enter(batch);
    rows.ForBatch(batch, [&](int j, const float(&row)[kPerLane]) {
#pragma unroll
      for (int c = 0; c < kPerLane; ++c) value[j][c] = row[c];
    });
    rows.Bring(batch + kStages);
    for (int32_t h0 = 0; h0 < piece.shared_by; h0 += kHeads) {
      if (h0 > 0) Weigh<kHeads>(args, parts, piece, rows.at, h0, weights);
      __syncthreads();
      const float* of_rows = weights + batch * kReadRows + WarpId();
#pragma unroll
      for (int head = 0; head < kHeads; ++head) {
        if (h0 + head >= piece.shared_by) break;
        float sum[kPerLane] = {};
#pragma unroll
        for (int j = 0; j < kBatch; ++j) {
          const float weight = of_rows[head * piece.own_splits * kReadRows + j * kReadWarps];
#pragma unroll
          for (int c = 0; c < kPerLane; ++c) sum[c] = fmaf(weight, value[j][c], sum[c]);
        }
#pragma unroll
        for (int c = 0; c < kPerLane; ++c) sums[head][WarpId()][piece.own_column + c] = sum[c];
      }
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < kHeads * kNarrowColumns; i += kReadThreads) {
        const int head = i / kNarrowColumns, c = i % kNarrowColumns;
        if (h0 + head >= piece.shared_by) break;
        float total = sums[head][0][c];
#pragma unroll
        for (int warp = 1; warp < kReadWarps; ++warp) total += sums[head][warp][c];
        const int64_t part = piece.PartOf(parts, h0 + head, piece.first_split + batch);
        parts.sum[part * kNarrowColumns + c] = total;
      }
    }
  }
}

// Whether this block is the last of those with its piece of columns, which sees what all of them
// wrote.
__device__ inline bool IsLast(const Parts& parts, const Piece& piece, uint32_t* ticket,
                              uint32_t& shared) {
  if (parts.groups == 1) {
    __syncthreads();
    return true;
  }
  return LastToArrive(ticket + 1 + piece.column_block, parts.groups, shared);
}

// Writes the position's code to the window, and counts the one that leaves. All blocks of this
// piece of columns have read the codes and counts; the last piece to come this far writes them. The
// last thread does so: in a narrow block with one head it has no output to add up.
__device__ inline void AppendCode(const VqDecode& args, const Parts& parts, const VqState& state,
                                  const Piece& piece, const Place& at, uint32_t* ticket) {
  if (threadIdx.x == blockDim.x - 1 &&
      (parts.column_blocks == 1 ||
       Draw(ticket) == static_cast<uint32_t>(parts.column_blocks) - 1)) {
    *ticket = 0;
    if (at.retired != kNoCode) ++state.count[at.g * at.codes + at.retired];
    state.window_code[at.g * at.window + at.slot] = args.codes[piece.unit];
  }
}

// Computes kOwn columns of head h's output, from column c of the piece on, from the sums of all
// splits, which lie `pitch` apart.
template <int kOwn, bool kAligned>
__device__ inline void AddSplits(const VqDecode& args, const Parts& parts, const Piece& piece,
                                 int32_t pitch, int32_t h, int32_t c) {
  const int64_t part = piece.PartOf(parts, h, 0);
  const auto width = static_cast<int32_t>(args.shape.value);
  const int32_t column = piece.first_column + c;
  AddParts<kOwn, kOwn == 1 || kAligned>(
      parts.weight + part, parts.sum + part * pitch + c, piece.splits, pitch, width - column,
      args.out + (piece.first_head + h) * args.shape.value + column);
}

// Computes the formula above, in one kernel: another one for the weights or for the sum of splits
// would cost each layer a launch and a wait, some microseconds in which memory is idle. Rows are
// loaded while their weights are computed.
//
// kHeads: how many of the heads that share a key/value head are computed at once; where there are
// more, a block takes one split. kWide: whether blocks are wide; these have one head. kAligned: see
// LoadRow.
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
  Shared& shared = BlockShared<Shared>();
  const Piece piece = PieceOf<kHeads, kWide>(args, parts);

  // States and positions are written by a copy ahead of the chain, not by a kernel.
  LetSuccessorBegin();
  Place at = PlaceOf(args, piece.unit);
  const VqState state = args.states[at.n];
  const Rows<T, kAligned, kWide> rows(args, state, piece, at);
  if (!state.none()) {
    rows.AskForFirst();
    AskForCodes(state, piece, at);
  }
  WaitForPredecessor();
  if (state.none()) {
    FillZero(args, parts, piece);
    return;
  }

  for (int32_t batch = 0; batch < kStages; ++batch) rows.Bring(batch);
  at.retired = at.retires ? state.window_code[at.g * at.window + at.slot] : kNoCode;
  float* weights = rows.Weights();
  Weigh<kHeads>(args, parts, piece, at, 0, weights);
  const Entry<T, kAligned, kWide> entry(args, state, rows);
  if constexpr (kWide) {
    __syncthreads();
    SumRowsWide(parts, rows, entry, weights);
  } else {
    SumRowsNarrow(args, parts, rows, entry, weights, shared.sum);
  }

  uint32_t* ticket = args.tickets + int64_t{piece.unit} * (parts.column_blocks + 1);
  if (!IsLast(parts, piece, ticket, shared.ticket)) return;
  AppendCode(args, parts, state, piece, at, ticket);
  if constexpr (kWide) {
    AddSplits<kPerLane, kAligned>(args, parts, piece, parts.columns, 0, piece.own_column);
  } else {
#pragma unroll 1
    for (auto i = static_cast<int32_t>(threadIdx.x); i < piece.shared_by * kNarrowColumns;
         i += kReadThreads) {
      AddSplits<1, kAligned>(args, parts, piece, kNarrowColumns, i / kNarrowColumns,
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
