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
#include <limits>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/tickets.cuh"
#include "kernels/cuda/vq_decode.cuh"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kPerLane = 4;      // columns
constexpr int kHeadsAtOnce = 4;  // where several share a key/value head
constexpr int kStages = 2;       // batches of rows that are on their way
// Narrow blocks: kReadWarps warps, which divide the rows of a split, on the same columns.
constexpr int kColumns = kWarp * kPerLane;
constexpr int kNarrowBlocks = 2;  // of a multiprocessor
// Wide blocks: as many warps as columns take, up to so many threads.
constexpr int kWideThreads = 384;
constexpr int kWideBlocks = 2;
// What a large GPU has (132 to 148), and values that make wide blocks of four warps; so little that
// tests reach all forms.
#if defined(TVQ_CUDA_HOST)
constexpr int64_t kMultiprocessors = 4, kLeastWideLanes = 1;
#else
constexpr int64_t kMultiprocessors = 132, kLeastWideLanes = 128;
#endif
// Splits of a block, whose weights lie in shared memory beside the rows under way, and in a narrow
// block sums: so many that all of it is what every GPU gives a block (kMostSharedBytes).
constexpr int64_t kMostSplits = 17, kMostWideSplits = 11;

// Bytes of LaunchShared: rows of so many batches under way, and the weights of so many splits.
__host__ __device__ constexpr int64_t LaunchBytes(bool wide, int64_t stages, int64_t heads,
                                                  int64_t splits) {
  const int64_t threads = wide ? kWideThreads : kReadThreads;
  return (stages * kReadRowsPerWarp * threads * kPerLane + heads * splits * kReadRows) *
         int64_t{sizeof(float)};
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

// What blocks leave for the last of them, and how they divide the work.
struct Parts {
  float* sum;          // [N, H, column blocks, splits][columns]
  RowsWeight* weight;  // [N, H, column blocks, splits]
  int32_t columns;     // of a block
  int32_t column_blocks;
  int32_t groups;  // blocks that share the splits of a piece of columns
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

// Outputs of a piece of columns from what all splits left, for a block.
__device__ inline void AddParts(const VqDecode& args, const Parts& parts, int32_t splits,
                                int64_t first_head, int64_t heads, int32_t column_block) {
  const int32_t outputs = static_cast<int32_t>(heads) * parts.columns;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < outputs;
       i += static_cast<int32_t>(blockDim.x)) {
    const int64_t head = first_head + i / parts.columns;  // one a warp
    const int32_t c = i % parts.columns;
    const int64_t first_part = (head * parts.column_blocks + column_block) * splits;
    const RowsWeight* of_split = parts.weight + first_part;
    const float* sum_of_split = parts.sum + first_part * parts.columns + c;
    float largest = -INFINITY, total = 0, weight = 0;
    for (int32_t s = LaneId(); s < splits; s += kWarp) {
      largest = Max()(largest, of_split[s].largest);
    }
    largest = WarpReduce(largest, Max());
    for (int32_t s0 = 0; s0 < splits; s0 += kWarp) {
      const RowsWeight lanes =
          s0 + LaneId() < splits ? of_split[s0 + LaneId()] : RowsWeight{-INFINITY, 0};
      const float scale_of_lane = expf(lanes.largest - largest);
      constexpr int kAtOnce = 16;
      for (int32_t s1 = s0; s1 < min(s0 + kWarp, splits); s1 += kAtOnce) {
        float part[kAtOnce];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          part[j] = s1 + j < splits ? sum_of_split[(s1 + j) * parts.columns] : 0;
        }
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          const float scale = __shfl_sync(kAllLanes, scale_of_lane, s1 - s0 + j);
          total = fmaf(scale, part[j], total);
          weight = fmaf(scale, __shfl_sync(kAllLanes, lanes.sum, s1 - s0 + j), weight);
        }
      }
    }
    const int64_t column = int64_t{column_block} * parts.columns + c;
    if (column < args.shape.value) args.out[head * args.shape.value + column] = total / weight;
  }
}

// kAligned: see LoadRow. kHeads: at once, of those that share a key/value head; where there are
// more, a block takes one split. kWide: blocks are, which have one head.
template <typename T, bool kAligned, int kHeads, bool kWide>
__global__ void __launch_bounds__(kWide ? kWideThreads : kReadThreads,
                                  kWide ? kWideBlocks : kNarrowBlocks)
    AttendKernel(VqDecode args, Parts parts) {
  struct Shared {
    float sum[kHeads][kWide ? 1 : kReadWarps][kWide ? 1 : kColumns];
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
  const int64_t unit = blockIdx.y, shared_by = args.heads / args.shape.kv_heads;

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
  const int64_t first_head = at.n * args.heads + at.g * shared_by;  // of all sessions' heads
  if (none) {
    if (group != 0) return;
    for (int64_t i = threadIdx.x; i < shared_by * parts.columns; i += threads) {
      const int64_t h = i / parts.columns, c = first_column + i % parts.columns;
      if (c < values) args.out[(first_head + h) * values + c] = 0;
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

  const auto part_of = [&](int64_t h, int32_t split) {
    return ((first_head + h) * parts.column_blocks + column_block) * splits + split;
  };
  const auto weigh = [&](int64_t h0) {
    for (int32_t i = WarpId(); i < kHeads * own_splits; i += threads / kWarp) {
      const int64_t h = h0 + i / own_splits;
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
  // away.
  struct RowPlace {
    int32_t batch = -1, j = 0;  // batch -1: not of this thread
  };
  const auto find = [&](int32_t row) -> RowPlace {
    const int32_t i = row - first_row;
    if (i < 0 || (!kWide && i % kReadWarps != WarpId())) return {};
    return kWide ? RowPlace{i / kBatch, i % kBatch}
                 : RowPlace{i / kReadRows, i % kReadRows / kReadWarps};
  };
  const int32_t own_row = at.codes + at.slot;
  const RowPlace own = find(own_row), entered = find(at.retired != kNoCode ? at.retired : own_row);
  const auto enter = [&](int32_t batch) {
    if (batch == own.batch) StoreRow<kAligned>(new_value, left, recent_place(batch, own.j));
    if (batch != entered.batch) return;
    if (at.retired != kNoCode) {
      float* carry = of_columns(state.carry, at.codes) + int64_t{at.retired} * width;
      Retire<kAligned>(recent_row(at.slot), left, place(batch, entered.j), sum_row(at.retired),
                       carry);
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
      for (int64_t h0 = 0; h0 < shared_by; h0 += kHeads) {
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
        for (int i = static_cast<int>(threadIdx.x); i < kHeads * kColumns; i += kReadThreads) {
          const int head = i / kColumns, c = i % kColumns;
          if (h0 + head >= shared_by) break;
          float total = shared.sum[head][0][c];
#pragma unroll
          for (int warp = 1; warp < kReadWarps; ++warp) total += shared.sum[head][warp][c];
          parts.sum[part_of(h0 + head, first_split + batch) * kColumns + c] = total;
        }
      }
    }
  }

  uint32_t* ticket = args.tickets + unit * (parts.column_blocks + 1);
  if (parts.groups == 1) {
    __syncthreads();
  } else if (!LastToArrive(ticket + 1 + column_block, parts.groups, shared.ticket)) {
    return;
  }
  // All blocks of this piece of columns have read the codes and counts, which the last piece to come
  // so far writes. By the last thread: in a narrow block with one head it has no output to add up.
  if (static_cast<int32_t>(threadIdx.x) == threads - 1 &&
      (parts.column_blocks == 1 ||
       Draw(ticket) == static_cast<uint32_t>(parts.column_blocks) - 1)) {
    *ticket = 0;
    if (at.retired != kNoCode) ++state.count[at.g * at.codes + at.retired];
    codes[at.slot] = args.codes[unit];
  }
  AddParts(args, parts, splits, first_head, shared_by, column_block);
}

// How the blocks of a call divide its work.
struct Division {
  bool wide;
  int32_t threads, columns, column_blocks, groups;
};

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Blocks have kPerLane columns a thread; so many take the columns of a row where they are wide.
int64_t Lanes(const VqDecode& args) { return CeilDivide(args.shape.value, kPerLane); }
int64_t WideColumnBlocks(const VqDecode& args) { return CeilDivide(Lanes(args), kWideThreads); }

// Up to so many sessions' key/value heads are read by narrow blocks: wide ones want a split for
// every multiprocessor, and one head each.
int64_t MostNarrowUnits(const VqDecode& args) {
  if (args.heads > args.shape.kv_heads || Lanes(args) < kLeastWideLanes) {
    return std::numeric_limits<int64_t>::max();
  }
  return (kMultiprocessors - 1) / (WideColumnBlocks(args) * args.Splits());
}

// A session's bits do not depend on it.
Division Divide(const VqDecode& args, int64_t units) {
  const int64_t splits = args.Splits(), shared_by = args.heads / args.shape.kv_heads;
  Division division{
      .wide = units > MostNarrowUnits(args), .threads = kReadThreads, .columns = kColumns};
  if (division.wide) {
    const int64_t warps = CeilDivide(Lanes(args), WideColumnBlocks(args) * kWarp);
    division.threads = static_cast<int32_t>(warps * kWarp);
    division.columns = division.threads * kPerLane;
  }
  const int64_t column_blocks = CeilDivide(args.shape.value, division.columns);
  const int64_t at_once = kMultiprocessors * (division.wide ? kWideBlocks : kNarrowBlocks);
  const int64_t most_splits = division.wide              ? kMostWideSplits
                              : shared_by > kHeadsAtOnce ? 1
                                                         : kMostSplits;
  division.column_blocks = static_cast<int32_t>(column_blocks);
  division.groups = static_cast<int32_t>(
      std::clamp(at_once / (units * column_blocks), CeilDivide(splits, most_splits), splits));
  return division;
}

// What a call takes of the device's scratch, elements, and of its tickets.
struct Workspace {
  int64_t sums, weights, tickets;
};

Workspace WorkspaceOf(const VqDecode& args, int64_t units, const Division& division) {
  const int64_t outputs = units * (args.heads / args.shape.kv_heads);
  const int64_t weights = outputs * division.column_blocks * args.Splits();
  return {.sums = weights * division.columns,
          .weights = weights,
          .tickets = units * (division.column_blocks + 1)};
}

// As much as any call of fewer units takes, too, of which the last that are read by narrow blocks
// may want more: what a larger batch has had a smaller one finds (steps are recorded from the
// largest batch on).
Workspace WorkspaceFor(const VqDecode& args, int64_t units, const Division& division) {
  const Workspace most = WorkspaceOf(args, units, division);
  const int64_t narrow_units = MostNarrowUnits(args);
  if (!division.wide || narrow_units == 0) return most;
  const Workspace narrow = WorkspaceOf(args, narrow_units, Divide(args, narrow_units));
  return {.sums = std::max(most.sums, narrow.sums),
          .weights = std::max(most.weights, narrow.weights),
          .tickets = std::max(most.tickets, narrow.tickets)};
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
