// The two forms of blocks of decode that reads all rows of a state exactly
// (vq_decode_attention.cu), and how the blocks of a call divide its work.
#ifndef TVQ_KERNELS_CUDA_VQ_ATTENTION_VQ_DECODE_BLOCKS_CUH_
#define TVQ_KERNELS_CUDA_VQ_ATTENTION_VQ_DECODE_BLOCKS_CUH_

#include <algorithm>
#include <limits>

#include "kernels/cuda/vq_attention/vq_decode.cuh"

namespace tvq::TVQ_CUDA {

constexpr int kPerLane = 4;      // columns
constexpr int kHeadsAtOnce = 4;  // where several share a key/value head
constexpr int kStages = 2;       // batches of rows that are copied ahead
// Narrow blocks: kReadWarps warps, which divide the rows of a split, on the same columns.
constexpr int kNarrowColumns = kWarp * kPerLane;
constexpr int kNarrowBlocks = 2;  // on a multiprocessor
// Wide blocks: as many warps as columns take, up to so many threads.
constexpr int kWideThreads = 384;
constexpr int kWideBlocks = 2;
// The multiprocessors of a large GPU (132 to 148), and the fewest lanes of a wide block, four
// warps. In the stand-in both are so few that tests reach all forms.
#if defined(TVQ_CUDA_STAND_IN)
constexpr int64_t kMultiprocessors = 4, kLeastWideLanes = 1;
#else
constexpr int64_t kMultiprocessors = 132, kLeastWideLanes = 128;
#endif
// The most splits of a block. Their weights lie in shared memory beside the rows that are copied
// ahead and, in a narrow block, sums: all of that fits into what every GPU gives a block
// (kMostSharedBytes).
constexpr int64_t kMostSplits = 17, kMostWideSplits = 11;

// Bytes of LaunchShared: the rows of `stages` batches, and the weights of `splits` splits.
__host__ __device__ constexpr int64_t LaunchBytes(bool wide, int64_t stages, int64_t heads,
                                                  int64_t splits) {
  const int64_t threads = wide ? kWideThreads : kReadThreads;
  return (stages * kReadRowsPerWarp * threads * kPerLane + heads * splits * kReadRows) *
         int64_t{sizeof(float)};
}

// How the blocks of a call divide its work.
struct Division {
  bool wide;
  int32_t threads, columns, column_blocks, groups;
};

inline int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How many threads, with kPerLane columns each, the columns of a row take; and how many wide
// blocks.
inline int64_t Lanes(const VqDecode& args) { return CeilDivide(args.shape.value, kPerLane); }
inline int64_t WideColumnBlocks(const VqDecode& args) {
  return CeilDivide(Lanes(args), kWideThreads);
}

// The most units (key/value heads of all sessions) that narrow blocks read. Wide blocks need a
// split for every multiprocessor, and one query head for each key/value head.
inline int64_t MostNarrowUnits(const VqDecode& args) {
  if (args.heads > args.shape.kv_heads || Lanes(args) < kLeastWideLanes) {
    return std::numeric_limits<int64_t>::max();
  }
  return (kMultiprocessors - 1) / (WideColumnBlocks(args) * args.Splits());
}

// How the blocks of a call divide its work. A session's bits do not depend on it.
inline Division Divide(const VqDecode& args, int64_t units) {
  const int64_t splits = args.Splits(), shared_by = args.heads / args.shape.kv_heads;
  Division division{
      .wide = units > MostNarrowUnits(args), .threads = kReadThreads, .columns = kNarrowColumns};
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

// How many elements of the device's scratch memory, and how many of its tickets, a call takes.
struct Workspace {
  int64_t sums, weights, tickets;
};

inline Workspace WorkspaceOf(const VqDecode& args, int64_t units, const Division& division) {
  const int64_t outputs = units * (args.heads / args.shape.kv_heads);
  const int64_t weights = outputs * division.column_blocks * args.Splits();
  return {.sums = weights * division.columns,
          .weights = weights,
          .tickets = units * (division.column_blocks + 1)};
}

// Enough for any call of fewer units, too. Among those, the largest call that narrow blocks read
// may need more than this call. So a smaller batch never needs more memory than a larger one has
// taken (steps are recorded from the largest batch on).
inline Workspace WorkspaceFor(const VqDecode& args, int64_t units, const Division& division) {
  const Workspace most = WorkspaceOf(args, units, division);
  const int64_t narrow_units = MostNarrowUnits(args);
  if (!division.wide || narrow_units == 0) return most;
  const Workspace narrow = WorkspaceOf(args, narrow_units, Divide(args, narrow_units));
  return {.sums = std::max(most.sums, narrow.sums),
          .weights = std::max(most.weights, narrow.weights),
          .tickets = std::max(most.tickets, narrow.tickets)};
}

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_VQ_ATTENTION_VQ_DECODE_BLOCKS_CUH_
