// The rows of a state, for decode that reads all of them exactly (vq_decode_attention.cu): which of
// them a block and a thread read, how they are loaded, and how the new position enters them. Rows
// are those of U, and behind these the slots of the window.
#ifndef TVQ_KERNELS_CUDA_VQ_ATTENTION_VQ_DECODE_ROWS_CUH_
#define TVQ_KERNELS_CUDA_VQ_ATTENTION_VQ_DECODE_ROWS_CUH_

#include "kernels/cuda/common/async_copy.cuh"
#include "kernels/cuda/vq_attention/vq_decode_blocks.cuh"
#include "kernels/cuda/vq_attention/vq_decode_splits.cuh"

namespace tvq::TVQ_CUDA {

// The part of a call that a block computes: some splits of the rows of a session's key/value head,
// and a piece of the columns of those rows, kPerLane columns for each thread.
struct Piece {
  int32_t unit;        // session and key/value head
  int32_t shared_by;   // query heads that share it
  int32_t first_head;  // of all sessions' heads
  int32_t group;       // of the blocks that share the piece of columns
  int32_t splits, first_split, own_splits;
  int32_t column_block, first_column;
  int32_t own_column;  // the thread's first, in the piece
  int32_t left;        // columns from there to the end of the row

  __device__ int32_t FirstRow() const { return first_split * kReadRows; }
  __device__ int32_t Column() const { return first_column + own_column; }

  // Where the results of a split for the h-th of the heads lie in Parts.
  __device__ int64_t PartOf(const Parts& parts, int32_t h, int32_t split) const {
    return (int64_t{first_head + h} * parts.column_blocks + column_block) * splits + split;
  }
};

template <int kHeads, bool kWide>
__device__ inline Piece PieceOf(const VqDecode& args, const Parts& parts) {
  Piece piece{.unit = static_cast<int32_t>(blockIdx.y)};
  piece.splits = static_cast<int32_t>(args.Splits());
  piece.column_block = static_cast<int32_t>(blockIdx.x) % parts.column_blocks;
  piece.group = static_cast<int32_t>(blockIdx.x) / parts.column_blocks;
  piece.first_split = piece.splits * piece.group / parts.groups;
  piece.own_splits = piece.splits * (piece.group + 1) / parts.groups - piece.first_split;
  piece.first_column = piece.column_block * parts.columns;
  piece.own_column = (kWide ? static_cast<int32_t>(threadIdx.x) : LaneId()) * kPerLane;
  piece.left = static_cast<int32_t>(args.shape.value) - piece.Column();
  piece.shared_by =
      kHeads == 1 ? 1
                  : static_cast<int32_t>(args.heads) / static_cast<int32_t>(args.shape.kv_heads);
  piece.first_head = piece.unit * piece.shared_by;
  return piece;
}

// Starts to copy columns of a row to memory that this thread reads; see LoadRow.
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

// Stores columns of the new value to a row of the window.
template <bool kAligned, typename T>
__device__ inline void StoreRow(const float* value, int64_t left, T* to) {
  float columns[kPerLane];
  LoadRow<kPerLane, kAligned>(value, left, columns);
#pragma unroll
  for (int c = 0; c < kPerLane; ++c) {
    if (kAligned || c < left) StoreAs(columns[c], to + c);
  }
}

// Adds the value that leaves the window to `row`, which is a row's sum as it was read, and writes
// the row's sum and carry in the state.
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

// A thread's columns of those rows of its block that it reads, in batches of kBatch. In a wide
// block it reads all rows, and a batch has neighbouring ones; in a narrow block it reads every
// eighth row, and a batch has all rows that a warp reads of a split.
//
// kAligned: see LoadRow.
template <typename T, bool kAligned, bool kWide>
struct Rows {
  static constexpr int kBatch = kReadRowsPerWarp;
  static constexpr int32_t kBatchesOfSplit = kWide ? kReadRows / kBatch : 1;
  static constexpr int32_t kStep = kWide ? 1 : kReadWarps;  // from a row of a batch to the next
  static constexpr int32_t kRowFloats = (kWide ? kWideThreads : kReadThreads) * kPerLane;
  static_assert(kBatch == kReadWarps);

  const Piece& piece;
  const Place& at;
  int32_t width;    // of a row
  int32_t batches;  // of the block
  float* sums;      // in the state; null: there is none
  T* recent;
  float* ring;  // in shared memory: kStages batches, which this thread alone reads

  __device__ Rows(const VqDecode& args, const VqState& state, const Piece& piece, const Place& at)
      : piece(piece),
        at(at),
        width(static_cast<int32_t>(args.shape.value)),
        batches(piece.own_splits * kBatchesOfSplit),
        sums(state.none() ? nullptr : OfColumns(args, state.sum, at.codes)),
        recent(state.none() ? nullptr
                            : OfColumns(args, static_cast<T*>(state.window_value), at.window)),
        ring(LaunchShared<float>() + threadIdx.x * kPerLane) {}

  // The thread's columns of the first of the `rows` rows that a head has.
  template <typename R>
  __device__ R* OfColumns(const VqDecode& args, R* array, int64_t rows) const {
    return array + at.g * (rows * args.shape.value) + piece.Column();
  }
  // The weights of the block's rows, which lie behind the rows that are copied ahead.
  __device__ float* Weights() const {
    return LaunchShared<float>() + min(batches, kStages) * kBatch * kRowFloats;
  }

  __device__ int32_t RowOf(int32_t batch, int j) const {
    return piece.FirstRow() + batch * (kWide ? kBatch : kReadRows) + (kWide ? 0 : WarpId()) +
           j * kStep;
  }
  __device__ bool IsRead(int32_t row) const { return row < at.codes + at.window && at.IsRead(row); }
  __device__ float* SumRow(int32_t row) const { return sums + int64_t{row} * width; }
  __device__ T* RecentRow(int32_t slot) const { return recent + int64_t{slot} * width; }

  // Where a row of a batch is copied to: a row of U, or one of the window.
  __device__ float* SumPlace(int32_t batch, int j) const {
    return ring + batch % kStages * (kBatch * kRowFloats) + j * kRowFloats;
  }
  __device__ T* RecentPlace(int32_t batch, int j) const {
    return reinterpret_cast<T*>(SumPlace(batch, j));
  }

  // Nearly all batches are one of these: rows of U alone, or rows of the window that all hold
  // positions.
  __device__ bool IsSums(int32_t batch) const { return RowOf(batch, kBatch - 1) < at.codes; }
  __device__ bool IsFullWindow(int32_t batch) const {
    return RowOf(batch, 0) >= at.codes && RowOf(batch, kBatch - 1) - at.codes < at.recent;
  }

  // Prefetches the first rows, ahead of the wait.
  __device__ void AskForFirst() const {
    for (int32_t batch = 0; batch < min(batches, kWide ? kStages : 1) && piece.left > 0; ++batch) {
#pragma unroll 4
      for (int j = 0; j < kBatch; ++j) {
        const int32_t row = RowOf(batch, j);
        if (!IsRead(row)) continue;
        if (row < at.codes) {
          AskFor(SumRow(row));
        } else {
          AskFor(RecentRow(row - at.codes));
        }
      }
    }
  }

  // Starts to copy a batch, if there is one, and closes the group of its copies.
  __device__ void Bring(int32_t batch) const {
    if (batch < batches && piece.left > 0) {
      const int32_t row = RowOf(batch, 0);
      if (IsSums(batch)) {
        if (at.retires) BringAll(SumRow(row), SumPlace(batch, 0));
      } else if (IsFullWindow(batch)) {
        BringAll(RecentRow(row - at.codes), RecentPlace(batch, 0));
      } else {
        BringMixed(batch);
      }
    }
    CloseCopies();
  }

  template <typename R>
  __device__ void BringAll(const R* from, R* to) const {
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      BringRow<kAligned>(from, piece.left, to);
      from += kStep * width;
      to += kRowFloats * sizeof(float) / sizeof(R);
    }
  }

  __device__ void BringMixed(int32_t batch) const {
#pragma unroll 1
    for (int j = 0; j < kBatch; ++j) {
      const int32_t row = RowOf(batch, j);
      if (!IsRead(row)) continue;
      if (row < at.codes) {
        BringRow<kAligned>(SumRow(row), piece.left, SumPlace(batch, j));
      } else {
        BringRow<kAligned>(RecentRow(row - at.codes), piece.left, RecentPlace(batch, j));
      }
    }
  }

  // Calls use(j, value) for the rows of a batch that has arrived, with zeros for rows that hold no
  // position, whose weight is zero.
  template <class Use>
  __device__ void ForBatch(int32_t batch, const Use& use) const {
    if (piece.left <= 0) return;
    const float* of_sums = SumPlace(batch, 0);
    const T* of_window = RecentPlace(batch, 0);
    if (IsSums(batch)) {
      if (at.retires) ForAll(of_sums, use);
    } else if (IsFullWindow(batch)) {
      ForAll(of_window, use);
    } else {
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        const int32_t row = RowOf(batch, j);
        float value[kPerLane] = {};
        if (row < at.codes) {
          if (at.retires) LoadRow<kPerLane, kAligned>(of_sums, piece.left, value);
        } else if (row - at.codes < at.recent) {
          LoadRow<kPerLane, kAligned>(of_window, piece.left, value);
        }
        use(j, value);
        of_sums += kRowFloats;
        of_window += kRowFloats * sizeof(float) / sizeof(T);
      }
    }
  }

  template <typename R, class Use>
  __device__ void ForAll(const R* from, const Use& use) const {
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      float value[kPerLane];
      LoadRow<kPerLane, kAligned>(from, piece.left, value);
      use(j, value);
      from += kRowFloats * sizeof(float) / sizeof(R);
    }
  }
};

// Where the position enters: its slot of the window and, if a value leaves the window, the row of
// the code that this value retires to. The thread that reads that row (or the slot, if no value
// leaves) writes both to the state. A thread that has read the slot replaces what it read by the
// new value.
template <typename T, bool kAligned, bool kWide>
struct Entry {
  using Rows = TVQ_CUDA::Rows<T, kAligned, kWide>;
  static constexpr uint32_t kAnothers = ~0U;

  const VqDecode& args;
  const VqState& state;
  const Rows& rows;
  uint32_t slot, written;  // which of the thread's rows; one number each, to save registers

  __device__ Entry(const VqDecode& args, const VqState& state, const Rows& rows)
      : args(args),
        state(state),
        rows(rows),
        slot(Find(rows.at.codes + rows.at.slot)),
        written(Find(rows.at.retired != kNoCode ? rows.at.retired : rows.at.codes + rows.at.slot)) {
  }

  __device__ uint32_t Find(int32_t row) const {
    const int32_t i = row - rows.piece.FirstRow();
    if (i < 0 || (!kWide && i % kReadWarps != WarpId())) return kAnothers;
    return static_cast<uint32_t>(kWide ? i : i / kReadWarps);
  }
  __device__ static bool IsIn(uint32_t row, int32_t batch) {
    return row / Rows::kBatch == static_cast<uint32_t>(batch);
  }

  __device__ const float* NewValue() const {
    return args.v + rows.piece.unit * args.shape.value + rows.piece.Column();
  }

  // Puts what enters into a batch that has arrived, and into the state.
  __device__ void Enter(int32_t batch) const {
    const Place& at = rows.at;
    const int64_t left = rows.piece.left;
    constexpr int kBatch = Rows::kBatch;
    if (IsIn(slot, batch)) {
      StoreRow<kAligned>(NewValue(), left, rows.RecentPlace(batch, slot % kBatch));
    }
    if (!IsIn(written, batch)) return;
    if (at.retired != kNoCode) {
      float* carry = rows.OfColumns(args, state.carry, at.codes) + int64_t{at.retired} * rows.width;
      Retire<kAligned>(rows.RecentRow(at.slot), left, rows.SumPlace(batch, written % kBatch),
                       rows.SumRow(at.retired), carry);
    }
    StoreRow<kAligned>(NewValue(), left, rows.RecentRow(at.slot));
  }
};

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_VQ_ATTENTION_VQ_DECODE_ROWS_CUH_
