// Chooses the rows that decode reads where it reads the int8 copy or leaves rows out
// (kernels/ops/attention/vq_attention.h); vq_read_rows.cu reads them.
//
// One kernel does this. Some of its blocks append columns of the position's value, and write the
// copy of the two rows that this changes, with a warp for 64 columns. Other blocks, one for each
// session and head, turn scores into shares of the softmax, and search for the largest bucket below
// which the shares are at most the mass that may be left out. The last of the blocks that share a
// key/value head lists the rows that any of its heads needs, and adds up what is kept and what is
// not. A session's list does not depend on N. Bytes per session and head: its S + W scores, the
// weights and shares they become, and those shares again four or five times, from cache.
#include "kernels/cuda/common/read_copy.cuh"
#include "kernels/cuda/common/tickets.cuh"
#include "kernels/cuda/vq_attention/vq_reduced.cuh"
#include "kernels/numbers/share_buckets.h"
#include "kernels/ops/attention/vq_attention.h"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kStartThreads = 256;  // of a block that computes weights or appends
constexpr int kStartWarps = kStartThreads / kWarp;

// Sums of shares below some bounds.
constexpr int kBounds = 3;
struct Below {
  float sum[kBounds];
};
struct AddBelow {
  __device__ Below operator()(Below a, const Below& b) const {
#pragma unroll
    for (int i = 0; i < kBounds; ++i) a.sum[i] += b.sum[i];
    return a;
  }
};

// Parts of one head's softmax.
struct Mass {
  double skipped, kept;
};
struct AddMass {
  __device__ Mass operator()(const Mass& a, const Mass& b) const {
    return {a.skipped + b.skipped, a.kept + b.kept};
  }
};

struct StartShared {
  float partial[kStartWarps];
  int32_t integers[kStartWarps];
  int32_t live[kStartWarps];
  int32_t kept[kStartWarps];
  Below below[kStartWarps];
  Mass mass[kStartWarps];
  uint32_t ticket;
};

// Computes the weights of a head's rows, by the codes and counts that the state will have when the
// position has entered it: the largest score first, then the exponentials. Every thread receives
// their sum. `partial` is shared memory, with a float for each warp. To be called by a block of
// kStartThreads.
__device__ inline float ComputeWeights(const VqDecode& args, int64_t n, int64_t h, float* partial) {
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
  return BlockReduce(sum, partial, Add());
}

// Turns the weights of head h, whose sum is given, into shares; every thread receives the largest
// one's bucket. Until a barrier a thread may read only the shares that it has computed itself: rows
// threadIdx.x, threadIdx.x + kStartThreads, ...
__device__ inline int32_t ComputeShares(const VqReduced& args, int64_t n, int64_t h, float sum,
                                        StartShared& shared) {
  const VqDecode& decode = args.decode;
  const int64_t first = (n * decode.heads + h) * decode.Rows(), g = h / args.SharedBy();
  const float inverse = 1 / sum;
  int32_t highest = 0;
  for (int64_t row = threadIdx.x; row < decode.Rows(); row += kStartThreads) {
    const float weight = decode.weights[first + row] * inverse;
    const float share = weight * static_cast<float>(decode.Count(n, g, row));
    decode.weights[first + row] = weight;
    args.shares[first + row] = share;
    highest = Max()(highest, ShareBuckets::Of(share));
  }
  return BlockReduce(highest, shared.integers, Max());
}

// The largest bucket, not above `highest`, below which shares sum up to `skip_mass` at most. Each
// pass over all shares leaves a quarter of the candidates, so that four or five passes find the
// bucket.
__device__ inline int32_t FindBucket(const float* shares, int64_t rows, float skip_mass,
                                     int32_t highest, StartShared& shared) {
  int32_t bucket = 0, end = highest + 1;
  while (end - bucket > 1) {
    const int32_t step = (end - bucket + kBounds) / (kBounds + 1);
    Below below{};
    for (int64_t row = threadIdx.x; row < rows; row += kStartThreads) {
      const int32_t of_row = ShareBuckets::Of(shares[row]);
#pragma unroll
      for (int i = 0; i < kBounds; ++i) {
        if (of_row < bucket + (i + 1) * step) below.sum[i] += shares[row];
      }
    }
    below = BlockReduce(below, shared.below, AddBelow());
    const int32_t first = bucket;
#pragma unroll
    for (int i = 0; i < kBounds; ++i) {
      const int32_t bound = first + (i + 1) * step;
      if (bound >= end) continue;
      if (below.sum[i] <= skip_mass) {
        bucket = bound;
      } else {
        end = bound;
      }
    }
  }
  return bucket;
}

__device__ inline void WeighRows(const VqReduced& args, int64_t n, int64_t h, StartShared& shared) {
  const VqDecode& decode = args.decode;
  const int64_t output = n * decode.heads + h;
  const float sum = ComputeWeights(decode, n, h, shared.partial);
  int32_t bucket = ComputeShares(args, n, h, sum, shared);
  if (args.skip_mass > 0) {
    bucket = FindBucket(args.shares + output * decode.Rows(), decode.Rows(), args.skip_mass, bucket,
                        shared);
  } else {
    bucket = 0;
  }
  if (threadIdx.x == 0) args.threshold[output] = ShareBuckets::Edge(bucket);
}

// Lists the rows that any of the heads that share g needs. Each warp has a run of rows, whose place
// in the list is known when all warps have counted.
__device__ inline void ListRows(const VqReduced& args, int64_t n, int64_t g, StartShared& shared) {
  const VqDecode& decode = args.decode;
  const int64_t rows = decode.Rows(), unit = n * args.KvHeads() + g;
  const int64_t first_head = n * decode.heads + g * args.SharedBy();
  const int64_t run = (rows + kStartThreads - 1) / kStartThreads * kWarp;
  const int64_t first = WarpId() * run;
  const int64_t end = first + run < rows ? first + run : rows;
  uint8_t* kept = args.kept + unit * rows;
  const auto is_needed = [&](int64_t row) {
    for (int64_t head = first_head; head < first_head + args.SharedBy(); ++head) {
      if (!(args.shares[head * rows + row] < args.threshold[head])) return true;
    }
    return false;
  };
  int32_t live_rows = 0, kept_rows = 0;
  for (int64_t base = first; base < end; base += kWarp) {
    const int64_t row = base + LaneId();
    const bool live = row < end && decode.Count(n, g, row) > 0;
    const bool needed = live && is_needed(row);
    if (row < end) kept[row] = needed ? 1 : 0;
    live_rows += __popc(__ballot_sync(kAllLanes, live));
    kept_rows += __popc(__ballot_sync(kAllLanes, needed));
  }
  if (LaneId() == 0) {
    shared.live[WarpId()] = live_rows;
    shared.kept[WarpId()] = kept_rows;
  }
  __syncthreads();
  int32_t place = 0, length = 0;
  live_rows = 0;
  for (int warp = 0; warp < kStartWarps; ++warp) {
    if (warp < WarpId()) place += shared.kept[warp];
    length += shared.kept[warp];
    live_rows += shared.live[warp];
  }
  for (int64_t base = first; base < end; base += kWarp) {
    const int64_t row = base + LaneId();
    const bool needed = row < end && kept[row] != 0;
    const uint32_t votes = __ballot_sync(kAllLanes, needed);
    const uint32_t before = (1U << static_cast<uint32_t>(LaneId())) - 1;
    if (needed) args.list[unit * rows + place + __popc(votes & before)] = static_cast<int32_t>(row);
    place += __popc(votes);
  }
  if (threadIdx.x != 0) return;
  args.length[unit] = length;
  if (args.row_reads == nullptr) return;
  args.row_reads[2 * unit] = live_rows;
  args.row_reads[2 * unit + 1] = length;
}

// Adds up the weights that are kept, by which outputs are divided, and those that are left out.
__device__ inline void SumMass(const VqReduced& args, int64_t n, int64_t g, StartShared& shared) {
  const VqDecode& decode = args.decode;
  const int64_t rows = decode.Rows(), first_head = n * decode.heads + g * args.SharedBy();
  const uint8_t* kept = args.kept + (n * args.KvHeads() + g) * rows;
  for (int64_t head = first_head; head < first_head + args.SharedBy(); ++head) {
    Mass mass{0, 1};
    if (args.skip_mass > 0) {
      mass.kept = 0;
      for (int64_t row = threadIdx.x; row < rows; row += kStartThreads) {
        const double share = args.shares[head * rows + row];
        (kept[row] != 0 ? mass.kept : mass.skipped) += share;
      }
      mass = BlockReduce(mass, shared.mass, AddMass());
    }
    if (threadIdx.x != 0) continue;
    decode.denominator[head] = static_cast<float>(mass.kept);
    if (args.skipped_mass != nullptr) args.skipped_mass[head] = static_cast<float>(mass.skipped);
  }
}

// Appends a warp's 64 columns of head g, and writes their copy.
template <typename T>
__device__ inline void AppendCopied(const VqDecode& args, int64_t n, int64_t g, int64_t part) {
  const VqShape& shape = args.shape;
  const VqState& state = args.states[n];
  for (int i = 0; i < kCopiedPerLane; ++i) {
    const int64_t c = part * kVqScaleColumns + i * kWarp + LaneId();
    if (c < shape.value) AppendValue<T>(args, n, g, c);
  }
  CopyRecent<T>(shape, state, g * shape.window + args.positions[n] % shape.window, part);
  if (const int32_t code = args.Retired(n, g); code != kNoCode) {
    CopyMean(shape, state, g * shape.codes + code, args.Count(n, g, code), part);
  }
}

// Sets what is reported of row n of the batch to zero.
__device__ inline void ReportNothing(const VqReduced& args, int64_t n) {
  for (int64_t h = threadIdx.x; h < args.decode.heads; h += kStartThreads) {
    if (args.skipped_mass != nullptr) args.skipped_mass[n * args.decode.heads + h] = 0;
  }
  for (int64_t i = threadIdx.x; i < 2 * args.KvHeads(); i += kStartThreads) {
    if (args.row_reads != nullptr) args.row_reads[n * 2 * args.KvHeads() + i] = 0;
  }
}

// Columns of a block that appends.
template <bool kCopy>
__host__ __device__ constexpr int64_t AppendColumns() {
  return kCopy ? kStartWarps * kVqScaleColumns : kStartThreads;
}

// blockIdx.y is the session; blockIdx.x counts its heads, then the blocks of columns of its
// key/value heads.
template <typename T, bool kCopy>
__global__ void __launch_bounds__(kStartThreads) ReducedStartKernel(VqReduced args) {
  const VqDecode& decode = args.decode;
  const int64_t n = blockIdx.y, block = blockIdx.x;
  LetSuccessorBegin();
  WaitForPredecessor();
  if (decode.states[n].none()) {
    if (block == 0) ReportNothing(args, n);
    return;
  }
  if (block < decode.heads) {
    StartShared& shared = BlockShared<StartShared>();
    const int64_t g = block / args.SharedBy();
    WeighRows(args, n, block, shared);
    uint32_t* ticket = decode.tickets + n * args.KvHeads() + g;
    if (!LastToArrive(ticket, args.SharedBy(), shared.ticket)) return;
    ListRows(args, n, g, shared);
    SumMass(args, n, g, shared);
    return;
  }
  constexpr int64_t kColumns = AppendColumns<kCopy>();
  const int64_t blocks = (decode.shape.value + kColumns - 1) / kColumns;
  const int64_t g = (block - decode.heads) / blocks, part = (block - decode.heads) % blocks;
  if constexpr (kCopy) {
    const int64_t own = part * kStartWarps + WarpId();
    if (own < decode.shape.scales()) AppendCopied<T>(decode, n, g, own);
  } else {
    const int64_t c = part * kColumns + threadIdx.x;
    if (c < decode.shape.value) AppendValue<T>(decode, n, g, c);
  }
}

// Each session has a block.
__global__ void __launch_bounds__(kStartThreads) WholeReadsKernel(VqReduced args) {
  struct Shared {
    int32_t partial[kStartWarps];
  };
  const int64_t n = blockIdx.x;
  LetSuccessorBegin();
  WaitForPredecessor();
  ReportNothing(args, n);
  if (args.decode.states[n].none() || args.row_reads == nullptr) return;
  for (int64_t g = 0; g < args.KvHeads(); ++g) {
    int32_t live = 0;
    for (int64_t row = threadIdx.x; row < args.decode.Rows(); row += kStartThreads) {
      live += args.decode.Count(n, g, row) > 0 ? 1 : 0;
    }
    live = BlockReduce(live, BlockShared<Shared>().partial, Add());
    if (threadIdx.x >= 2) continue;
    args.row_reads[2 * (n * args.KvHeads() + g) + threadIdx.x] = live;
  }
}

template <typename T, bool kCopy>
absl::Status Choose(Device& device, const VqReduced& args, int64_t sessions) {
  constexpr int64_t kColumns = AppendColumns<kCopy>();
  const int64_t append_blocks = (args.decode.shape.value + kColumns - 1) / kColumns;
  return Launch("VqReducedStart", device,
                {.blocks = args.decode.heads + args.KvHeads() * append_blocks,
                 .blocks_y = sessions,
                 .threads = kStartThreads,
                 .overlaps = true},
                ReducedStartKernel<T, kCopy>, args);
}

}  // namespace

absl::Status ChooseVqRows(Device& device, const VqReduced& args, int64_t sessions) {
  const VqShape& shape = args.decode.shape;
  const bool copy = shape.read == VqRead::kInt8;
  if (shape.value_dtype == DType::kFloat32) {
    return copy ? Choose<float, true>(device, args, sessions)
                : Choose<float, false>(device, args, sessions);
  }
  return copy ? Choose<BFloat16, true>(device, args, sessions)
              : Choose<BFloat16, false>(device, args, sessions);
}

absl::Status ReportWholeReads(Device& device, const VqDecodeAttentionArgs& args,
                              const VqDecode& decode) {
  return Launch("VqWholeReads", device,
                {.blocks = args.code_scores.dim(0), .threads = kStartThreads, .overlaps = true},
                WholeReadsKernel, MakeReduced(args, decode));
}

}  // namespace tvq::TVQ_CUDA
