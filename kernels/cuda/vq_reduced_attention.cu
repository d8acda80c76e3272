// Decode attention that reads the int8 copy of a state's rows, or leaves rows out, or both
// (kernels/ops/vq_attention.h).
//
// Two kernels, as where all is exact. The first: blocks of columns let the position enter, and of
// the two rows that this changes write the copy, a warp for 64 columns; a block a session and head
// turns scores into shares of the softmax and searches the largest bucket below which they are at
// most the mass that may be left out; the last block of those that share a key/value head puts the
// rows that any of them needs into a list, and adds up what is kept and what is not. The second
// reads values: a block takes 64 rows of the list and 512 columns of the copy, or 128 exact ones,
// 16 bytes a lane, all on their way before the first is used, and multiplies them with the weights
// of every head that shares them; the last block to arrive adds the partial sums of the blocks in
// their order. Bytes per session and key/value head: 17/16 V a row of the copy that is read, 4 V
// and 2 or 4 V an exact one. A session's list alone decides on its splits: its bits do not depend
// on N. The grid is that of a list of all rows, so that a recorded step holds; blocks behind the
// end of the list have nothing to do.
#include "kernels/cuda/int8.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/read_copy.cuh"
#include "kernels/cuda/tickets.cuh"
#include "kernels/cuda/vq_decode.cuh"
#include "kernels/share_buckets.h"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kStartWarps = kStartThreads / kWarp;
constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;
constexpr int kRowsPerWarp = 8;
constexpr int kRows = kWarps * kRowsPerWarp;  // of a block

struct Reduced {
  VqDecode decode;  // weights: what a row as it is read is multiplied with
  float* shares;    // [N, H, S + W] of the softmax; of the copy they are the weights
  float skip_mass;
  float* threshold;     // [N, H] the head needs no smaller shares
  uint8_t* kept;        // [N, G, S + W] whether a row is read
  int32_t* list;        // [N, G, S + W] those that are, in order
  int32_t* length;      // [N, G] of the list
  float* skipped_mass;  // [N, H], or null
  int32_t* row_reads;   // [N, G, 2], or null

  __host__ __device__ int64_t KvHeads() const { return decode.shape.kv_heads; }
  __host__ __device__ int64_t SharedBy() const { return decode.heads / KvHeads(); }
  __host__ __device__ int64_t Splits() const { return (decode.Rows() + kRows - 1) / kRows; }
};

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

// Turns the weights of head h, whose sum is given, into shares; every thread receives the largest
// one's bucket. Until a barrier a thread may read those of the rows from threadIdx.x on.
__device__ inline int32_t ComputeShares(const Reduced& args, int64_t n, int64_t h, float sum,
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

// The largest bucket, not above `highest`, below which shares sum up to `skip_mass` at most: found
// in quarters of what it may be, so that the block adds up all shares four or five times.
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

__device__ inline void WeighRows(const Reduced& args, int64_t n, int64_t h, StartShared& shared) {
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

// Lists the rows that a head of those that share g needs: a warp a run of rows, whose place in the
// list is known when all warps have counted.
__device__ inline void ListRows(const Reduced& args, int64_t n, int64_t g, StartShared& shared) {
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

// What the weights that are kept sum to, which outputs are divided by, and what is left out.
__device__ inline void SumMass(const Reduced& args, int64_t n, int64_t g, StartShared& shared) {
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

// A warp's 64 columns of head g, and of their copy.
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

// Of session n, which is nobody's.
__device__ inline void ReportNothing(const Reduced& args, int64_t n) {
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

// Blocks of session y: a head each, then columns of a key/value head each.
template <typename T, bool kCopy>
__global__ void __launch_bounds__(kStartThreads) ReducedStartKernel(Reduced args) {
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

// A lane's columns of a row of the copy.
struct CopiedRow {
  static constexpr int kPerLane = 16;
  uint32_t four[kPerLane / 4];
  float scale;

  template <bool kAligned>
  __device__ void Load(const VqShape& shape, const VqState& state, int64_t g, int64_t row,
                       int64_t column) {
    const bool recent = row >= shape.codes;
    const int64_t at = recent ? g * shape.window + row - shape.codes : g * shape.codes + row;
    const int8_t* from = (recent ? state.recent : state.mean) + at * shape.value + column;
    scale = (recent ? state.recent_scale
                    : state.mean_scale)[at * shape.scales() + column / kVqScaleColumns];
    if constexpr (kAligned) {
      const uint4 all = LoadStreamed(reinterpret_cast<const uint4*>(from));
      four[0] = all.x;
      four[1] = all.y;
      four[2] = all.z;
      four[3] = all.w;
    } else {
      for (uint32_t i = 0; i < kPerLane; ++i) {
        const uint32_t byte = column + i < shape.value ? static_cast<uint8_t>(from[i]) : 0;
        four[i / 4] = (i % 4 == 0 ? 0 : four[i / 4]) | byte << 8 * (i % 4);
      }
    }
  }

  __device__ void AddTo(float weight, float (&sum)[kPerLane]) const {
    const float factor = weight * scale;
#pragma unroll
    for (int word = 0; word < kPerLane / 4; ++word) {
      const uint32_t bytes = WidenedHere(four[word]);
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        sum[4 * word + i] = fmaf(factor, WidenByte(bytes, i), sum[4 * word + i]);
      }
    }
  }
};
static_assert(kVqScaleColumns % CopiedRow::kPerLane == 0);

// And of an exact row, where the window holds T.
template <typename T>
struct ExactRow {
  static constexpr int kPerLane = 4;
  float value[kPerLane];

  template <bool kAligned>
  __device__ void Load(const VqShape& shape, const VqState& state, int64_t g, int64_t row,
                       int64_t column) {
    const int64_t left = shape.value - column;
    if (row < shape.codes) {
      LoadRow<kPerLane, kAligned>(state.sum + (g * shape.codes + row) * shape.value + column, left,
                                  value);
    } else {
      const T* window = static_cast<const T*>(state.window_value);
      const int64_t slot = g * shape.window + row - shape.codes;
      LoadRow<kPerLane, kAligned>(window + slot * shape.value + column, left, value);
    }
  }

  __device__ void AddTo(float weight, float (&sum)[kPerLane]) const {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) sum[i] = fmaf(weight, value[i], sum[i]);
  }
};

template <typename Row>
__host__ __device__ inline int64_t ColumnBlocks(const VqShape& shape) {
  constexpr int64_t kColumns = kWarp * Row::kPerLane;
  return (shape.value + kColumns - 1) / kColumns;
}

// Sums of a block lie in its order of columns: the first of every lane, then the second of every
// lane, and so on. kAligned: V is a multiple of Row::kPerLane.
template <typename Row, bool kAligned>
__global__ void __launch_bounds__(kThreads) ReducedValuesKernel(Reduced args) {
  constexpr int kPerLane = Row::kPerLane, kColumns = kWarp * kPerLane;
  struct Shared {
    int32_t row[kRows];
    float weight[kRows];
    float sum[kWarps][kColumns];
    uint32_t ticket;
  };
  LetSuccessorBegin();
  WaitForPredecessor();
  Shared& shared = BlockShared<Shared>();
  const VqDecode& decode = args.decode;
  const VqShape& shape = decode.shape;
  const int64_t splits = args.Splits(), rows = decode.Rows(), shared_by = args.SharedBy();
  const int64_t split = blockIdx.x % splits;
  const int64_t column_block = static_cast<int64_t>(blockIdx.x) / splits;
  const int64_t n = blockIdx.y / args.KvHeads(), g = blockIdx.y % args.KvHeads();
  const int64_t unit = blockIdx.y, first_head = n * decode.heads + g * shared_by;
  const int64_t first = column_block * kColumns, own = first + LaneId() * kPerLane;
  const VqState state = decode.states[n];
  // Calls visit(i, column) for the thread's part of a block's sums.
  const auto for_own = [&](const auto& visit) {
    for (int i = static_cast<int>(threadIdx.x); i < kColumns; i += kThreads) {
      const int64_t c = first + i % kWarp * kPerLane + i / kWarp;
      if (c < shape.value) visit(i, c);
    }
  };
  if (state.none()) {
    if (split != 0) return;
    for (int64_t head = first_head; head < first_head + shared_by; ++head) {
      for_own([&](int, int64_t c) { decode.out[head * shape.value + c] = 0; });
    }
    return;
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) EnterCode(decode, n, g);
  const int64_t length = args.length[unit], used = (length + kRows - 1) / kRows;
  if (split >= used) return;
  // Behind the end of the list its last row once more, with weight 0, and behind the end of a row
  // its first column, which nobody adds up: all loads are on their way before the first is used.
  const int64_t left = length - split * kRows;
  for (int i = static_cast<int>(threadIdx.x); i < kRows; i += kThreads) {
    shared.row[i] = args.list[unit * rows + split * kRows + (i < left ? i : left - 1)];
  }
  __syncthreads();
  const int64_t column = own < shape.value ? own : 0;
  Row row[kRowsPerWarp];
#pragma unroll
  for (int i = 0; i < kRowsPerWarp; ++i) {
    row[i].template Load<kAligned>(shape, state, g, shared.row[i * kWarps + WarpId()], column);
  }
  const auto partial = [&](int64_t head) {
    return decode.partial + ((head * ColumnBlocks<Row>(shape) + column_block) * splits) * kColumns;
  };
  for (int64_t head = first_head; head < first_head + shared_by; ++head) {
    for (int i = static_cast<int>(threadIdx.x); i < kRows; i += kThreads) {
      shared.weight[i] = i < left ? decode.weights[head * rows + shared.row[i]] : 0;
    }
    __syncthreads();
    float sum[kPerLane] = {};
#pragma unroll
    for (int i = 0; i < kRowsPerWarp; ++i) {
      row[i].AddTo(shared.weight[i * kWarps + WarpId()], sum);
    }
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) shared.sum[WarpId()][i * kWarp + LaneId()] = sum[i];
    __syncthreads();
    for_own([&](int i, int64_t) {
      float total = shared.sum[0][i];
      for (int warp = 1; warp < kWarps; ++warp) total += shared.sum[warp][i];
      partial(head)[split * kColumns + i] = total;
    });
  }
  uint32_t* ticket = decode.tickets + unit * ColumnBlocks<Row>(shape) + column_block;
  if (!LastToArrive(ticket, used, shared.ticket)) return;
  for (int64_t head = first_head; head < first_head + shared_by; ++head) {
    const float denominator = decode.denominator[head];
    for_own([&](int i, int64_t c) {
      const float* sums = partial(head) + i;
      float total = sums[0];
      for (int64_t s = 1; s < used; ++s) total += sums[s * kColumns];
      decode.out[head * shape.value + c] = total / denominator;
    });
  }
}

// A block a session.
__global__ void __launch_bounds__(kStartThreads) WholeReadsKernel(Reduced args) {
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

// Sets what the kernels leave to one another, and runs them.
template <typename T, typename Row>
absl::Status Run(Device& device, Reduced& args, int64_t sessions) {
  constexpr bool kCopy = std::is_same_v<Row, CopiedRow>;
  constexpr int64_t kColumns = kWarp * Row::kPerLane;
  VqDecode& decode = args.decode;
  CudaDevice& cuda = AsCuda(device);
  const int64_t units = sessions * args.KvHeads(), outputs = sessions * decode.heads;
  const int64_t column_blocks = ColumnBlocks<Row>(decode.shape), weights = outputs * decode.Rows();
  const absl::StatusOr<float*> floats =
      cuda.Scratch<float>(1, weights * (kCopy ? 1 : 2) + 2 * outputs);
  if (!floats.ok()) return floats.status();
  decode.weights = *floats;
  args.shares = kCopy ? decode.weights : decode.weights + weights;
  decode.denominator = args.shares + weights;
  args.threshold = decode.denominator + outputs;
  const absl::StatusOr<float*> partial =
      cuda.Scratch<float>(2, outputs * args.Splits() * column_blocks * kColumns);
  if (!partial.ok()) return partial.status();
  decode.partial = *partial;
  const absl::StatusOr<int32_t*> list = cuda.Scratch<int32_t>(3, units * (decode.Rows() + 1));
  if (!list.ok()) return list.status();
  args.list = *list;
  args.length = *list + units * decode.Rows();
  const absl::StatusOr<uint8_t*> kept = cuda.Scratch<uint8_t>(4, units * decode.Rows());
  if (!kept.ok()) return kept.status();
  args.kept = *kept;
  const absl::StatusOr<uint32_t*> tickets = cuda.Tickets(units * column_blocks);
  if (!tickets.ok()) return tickets.status();
  decode.tickets = *tickets;

  constexpr int64_t kAppended = AppendColumns<kCopy>();
  const int64_t append_blocks = (decode.shape.value + kAppended - 1) / kAppended;
  const absl::Status status = Launch("VqReducedStart", device,
                                     {.blocks = decode.heads + args.KvHeads() * append_blocks,
                                      .blocks_y = sessions,
                                      .threads = kStartThreads,
                                      .overlaps = true},
                                     ReducedStartKernel<T, kCopy>, args);
  if (!status.ok()) return status;
  const LaunchShape shape{.blocks = column_blocks * args.Splits(),
                          .blocks_y = units,
                          .threads = kThreads,
                          .overlaps = true};
  return decode.shape.value % Row::kPerLane == 0
             ? Launch("VqReducedValues", device, shape, ReducedValuesKernel<Row, true>, args)
             : Launch("VqReducedValues", device, shape, ReducedValuesKernel<Row, false>, args);
}

Reduced MakeReduced(const VqDecodeAttentionArgs& args, const VqDecode& decode) {
  return {.decode = decode,
          .skip_mass = args.skip_mass,
          .skipped_mass = args.skipped_mass.data,
          .row_reads = args.row_reads.data};
}

}  // namespace

absl::Status RunReducedDecode(Device& device, const VqDecodeAttentionArgs& args,
                              const VqDecode& decode) {
  Reduced reduced = MakeReduced(args, decode);
  const int64_t sessions = args.code_scores.dim(0);
  const bool copy = args.shape.read == VqRead::kInt8;
  if (args.shape.value_dtype == DType::kFloat32) {
    return copy ? Run<float, CopiedRow>(device, reduced, sessions)
                : Run<float, ExactRow<float>>(device, reduced, sessions);
  }
  return copy ? Run<BFloat16, CopiedRow>(device, reduced, sessions)
              : Run<BFloat16, ExactRow<BFloat16>>(device, reduced, sessions);
}

absl::Status ReportWholeReads(Device& device, const VqDecodeAttentionArgs& args,
                              const VqDecode& decode) {
  return Launch("VqWholeReads", device,
                {.blocks = args.code_scores.dim(0), .threads = kStartThreads, .overlaps = true},
                WholeReadsKernel, MakeReduced(args, decode));
}

}  // namespace tvq::TVQ_CUDA
