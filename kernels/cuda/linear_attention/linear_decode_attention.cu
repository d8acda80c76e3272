// One new position of each of N sessions enters its state and attends to it
// (kernels/ops/attention/linear_attention.h):
//
//   A += k v^T [F, V]     b += k [F]     out = q^T A / (q . b) [V]
//
// There are two kernels. The first has a block for each session and key/value head, which adds to b
// and computes the denominators: G (16 F + 4 F H / G) bytes a session. The second passes once over
// A, which is nearly all that moves: sums and carries in and out, 16 F V bytes a head, 16 bytes by
// a thread at a time. A block takes up to 128 columns and as many rows as its threads hold, four
// each. A thread starts all its loads before it uses the first, and multiplies a row with the
// features of all queries that share it while the row is in registers. Blocks that share columns
// write partial sums, which the last of them to arrive adds in the order of the rows. Tiles and
// splits follow from shapes alone: a session's bits do not depend on N.
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/tickets.cuh"
#include "kernels/cuda/linear_attention/linear_attention.cuh"
#include "kernels/numbers/two_sum.h"
#include "kernels/ops/attention/linear_attention.h"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kKeyThreads = 128;  // of a block that adds to b
constexpr int kThreads = 256;     // of a block that adds to A
constexpr int kPerLane = 4;       // columns
constexpr int kLanes = kWarp;     // along a row of a block, at most
constexpr int kRowsPerThread = 4;

struct LinearDecode {
  const LinearState* states;
  int heads, kv_heads, shared_by;  // H, G, H / G
  int features, values;            // F, V
  // Threads of a block share its columns as evenly as possible: `lanes` threads lie beside each
  // other along a row, and take `groups` rows at a time.
  int column_blocks, lanes, groups;
  int splits;  // blocks that it takes for all rows of the same columns
  const float* q;
  const float* k;
  const float* v;
  float* denominator;  // [N, H]
  float* partial;      // [N, H, splits, V]
  uint32_t* tickets;   // [N, G, column_blocks]
  float* out;

  __host__ __device__ int BlockRows() const { return groups * kRowsPerThread; }
};

LinearDecode Divide(const LinearDecodeAttentionArgs& args) {
  LinearDecode decode{.states = args.states.data,
                      .q = args.q.data,
                      .k = args.k.data,
                      .v = args.v.data,
                      .out = args.out.data};
  decode.heads = static_cast<int>(args.q.dim(1));
  decode.kv_heads = static_cast<int>(args.shape.kv_heads);
  decode.shared_by = decode.heads / decode.kv_heads;
  decode.features = static_cast<int>(args.shape.features);
  decode.values = static_cast<int>(args.shape.value);
  const int quads = (decode.values + kPerLane - 1) / kPerLane;
  decode.column_blocks = (quads + kLanes - 1) / kLanes;
  decode.lanes = (quads + decode.column_blocks - 1) / decode.column_blocks;
  decode.groups = kThreads / decode.lanes;
  decode.splits = (decode.features + decode.BlockRows() - 1) / decode.BlockRows();
  return decode;
}

// Adds k to b, then computes the denominators of the head's queries, with a warp for each.
// blockIdx.x is the key/value head, blockIdx.y the session.
__global__ void __launch_bounds__(kKeyThreads) DecodeKeysKernel(LinearDecode args) {
  LetSuccessorBegin();
  WaitForPredecessor();
  const int g = static_cast<int>(blockIdx.x);
  const int64_t n = blockIdx.y, head = n * args.heads + g * args.shared_by;
  const LinearState state = args.states[n];
  if (state.none()) return;
  const int64_t first = int64_t{g} * args.features;
  float* b = state.key_sum + first;
  float* carry = state.key_carry + first;
  const float* key = args.k + n * args.kv_heads * args.features + first;
  for (int i = static_cast<int>(threadIdx.x); i < args.features; i += kKeyThreads) {
    AddTwoSum(key[i], b[i], carry[i]);
  }
  __syncthreads();
  for (int h = WarpId(); h < args.shared_by; h += kKeyThreads / kWarp) {
    const float* query = args.q + (head + h) * args.features;
    float sum = 0;
    for (int i = LaneId(); i < args.features; i += kWarp) sum = fmaf(query[i], b[i], sum);
    sum = WarpReduce(sum, Add());
    if (LaneId() == 0) args.denominator[head + h] = sum;
  }
}

// Loads four columns, of which `left` exist. kAligned: V is a multiple of four, so that they are
// loaded at once.
template <bool kAligned>
__device__ inline void LoadQuad(const float* from, int left, float (&to)[kPerLane]) {
  if constexpr (kAligned) {
    const uint4 quad = LoadStreamed(reinterpret_cast<const uint4*>(from));
    to[0] = __uint_as_float(quad.x);
    to[1] = __uint_as_float(quad.y);
    to[2] = __uint_as_float(quad.z);
    to[3] = __uint_as_float(quad.w);
  } else {
#pragma unroll
    for (int c = 0; c < kPerLane; ++c) to[c] = c < left ? from[c] : 0;
  }
}
// Stores 16 bytes at once; the compiler may make four of an ordinary store where registers are few.
__device__ inline void StoreWhole(const float4& from, float4* to) {
#if defined(TVQ_CUDA_STAND_IN)
  *to = from;
#else
  asm volatile("st.global.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(to), "f"(from.x), "f"(from.y),
               "f"(from.z), "f"(from.w)
               : "memory");
#endif
}
template <bool kAligned>
__device__ inline void StoreQuad(const float (&from)[kPerLane], int left, float* to) {
  if constexpr (kAligned) {
    StoreWhole({from[0], from[1], from[2], from[3]}, reinterpret_cast<float4*>(to));
  } else {
#pragma unroll
    for (int c = 0; c < kPerLane; ++c) {
      if (c < left) to[c] = from[c];
    }
  }
}

// blockIdx.y is the session and key/value head; blockIdx.x counts the splits of the first columns,
// then those of the next.
template <bool kAligned>
__global__ void __launch_bounds__(kThreads, 3) DecodeValuesKernel(LinearDecode args) {
  struct alignas(16) Shared {
    float sum[2][kThreads * kPerLane];  // of two heads in turn
    uint32_t ticket;
  };
  LetSuccessorBegin();
  Shared& shared = BlockShared<Shared>();
  const int thread = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x);
  const int y = static_cast<int>(blockIdx.y), n = y / args.kv_heads, g = y % args.kv_heads;
  const int column_block = block / args.splits, split = block % args.splits;
  const int group = thread / args.lanes, columns = args.lanes * kPerLane;
  const int first_column = column_block * columns;
  const int column = first_column + thread % args.lanes * kPerLane, left = args.values - column;
  // The column of this thread where rows are added up.
  const int own = first_column + thread;
  const bool owns = thread < columns && own < args.values;
  // The thread's rows are `groups` apart; it has those whose number is below `rows`.
  const int first_row = split * args.BlockRows() + group, rows_left = args.features - first_row;
  int rows = 0;
  if (group < args.groups && left > 0 && rows_left > 0) {
    rows = min(kRowsPerThread, (rows_left - 1) / args.groups + 1);
  }
  const int64_t row = int64_t{g} * args.features + first_row, stride = args.groups * args.values;
  const int64_t first_head = int64_t{n} * args.heads + g * args.shared_by;
  const float* keys = args.k + int64_t{n} * args.kv_heads * args.features + row;
  const float* queries = args.q + first_head * args.features + first_row;
  const float* v = args.v + int64_t{y} * args.values + column;

  WaitForPredecessor();
  const LinearState state = args.states[n];
  if (state.none()) {
    for (int h = 0; split == 0 && owns && h < args.shared_by; ++h) {
      args.out[(first_head + h) * args.values + own] = 0;
    }
    return;
  }
  float* sums = state.key_value_sum + row * args.values + column;
  float* carries = state.key_value_carry + row * args.values + column;
  float sum[kRowsPerThread][kPerLane], carry[kRowsPerThread][kPerLane];
  float key[kRowsPerThread], query[kRowsPerThread], value[kPerLane];
#pragma unroll
  for (int i = 0; i < kRowsPerThread; ++i) {
    if (i < rows) {
      LoadQuad<kAligned>(sums + i * stride, left, sum[i]);
      LoadQuad<kAligned>(carries + i * stride, left, carry[i]);
      key[i] = keys[i * args.groups];
      query[i] = queries[i * args.groups];
    } else {
      for (int c = 0; c < kPerLane; ++c) sum[i][c] = carry[i][c] = 0;
      key[i] = query[i] = 0;
    }
  }
#pragma unroll
  for (int c = 0; c < kPerLane; ++c) value[c] = c < left ? v[c] : 0;
#pragma unroll
  for (int i = 0; i < kRowsPerThread; ++i) {
#pragma unroll
    for (int c = 0; c < kPerLane; ++c) AddTwoSum(key[i] * value[c], sum[i][c], carry[i][c]);
    if (i < rows) {
      StoreQuad<kAligned>(sum[i], left, sums + i * stride);
      StoreQuad<kAligned>(carry[i], left, carries + i * stride);
    }
  }

  for (int h = 0; h < args.shared_by; ++h) {
    float total[kPerLane] = {};
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) {
#pragma unroll
      for (int c = 0; c < kPerLane; ++c) total[c] = fmaf(query[i], sum[i][c], total[c]);
    }
    float* totals = shared.sum[h % 2];
    *reinterpret_cast<float4*>(totals + thread * kPerLane) = {total[0], total[1], total[2],
                                                              total[3]};
    // Loads the next head's features while this one's rows are added up.
    queries += args.features;
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) {
      if (h + 1 < args.shared_by && i < rows) query[i] = queries[i * args.groups];
    }
    __syncthreads();
    if (!owns) continue;
    const int64_t head = first_head + h;
    float of_block = totals[thread];
    for (int other = 1; other < args.groups; ++other) of_block += totals[other * columns + thread];
    if (args.splits == 1) {
      args.out[head * args.values + own] = of_block / args.denominator[head];
    } else {
      args.partial[(head * args.splits + split) * args.values + own] = of_block;
    }
  }
  if (args.splits == 1) return;
  uint32_t* ticket = args.tickets + int64_t{y} * args.column_blocks + column_block;
  if (!LastToArrive(ticket, args.splits, shared.ticket)) return;
  for (int i = thread; i < args.shared_by * columns; i += kThreads) {
    const int c = first_column + i % columns;
    if (c >= args.values) continue;
    const int64_t head = first_head + i / columns;
    const float* partial = args.partial + head * args.splits * args.values + c;
    float total = partial[0];
    for (int s = 1; s < args.splits; ++s) total += partial[int64_t{s} * args.values];
    args.out[head * args.values + c] = total / args.denominator[head];
  }
}

}  // namespace

absl::Status CudaLinearDecodeAttention(Device& device, const LinearDecodeAttentionArgs& args) {
  if (args.query_exponents) return NoExponents("LinearDecodeAttention");
  const int64_t sessions = args.q.dim(0);
  if (sessions == 0) return absl::OkStatus();
  LinearDecode decode = Divide(args);
  CudaDevice& cuda = AsCuda(device);
  absl::StatusOr<float*> denominator = cuda.Scratch<float>(0, sessions * decode.heads);
  if (!denominator.ok()) return denominator.status();
  absl::StatusOr<float*> partial =
      cuda.Scratch<float>(1, sessions * decode.heads * decode.splits * decode.values);
  if (!partial.ok()) return partial.status();
  absl::StatusOr<uint32_t*> tickets =
      cuda.Tickets(sessions * decode.kv_heads * decode.column_blocks);
  if (!tickets.ok()) return tickets.status();
  decode.denominator = *denominator;
  decode.partial = *partial;
  decode.tickets = *tickets;
  const absl::Status status = Launch(
      "LinearDecodeKeys", device,
      {.blocks = decode.kv_heads, .blocks_y = sessions, .threads = kKeyThreads, .overlaps = true},
      DecodeKeysKernel, decode);
  if (!status.ok()) return status;
  const LaunchShape shape{.blocks = int64_t{decode.column_blocks} * decode.splits,
                          .blocks_y = sessions * decode.kv_heads,
                          .threads = kThreads,
                          .overlaps = true};
  return decode.values % kPerLane == 0
             ? Launch("LinearDecodeValues", device, shape, DecodeValuesKernel<true>, decode)
             : Launch("LinearDecodeValues", device, shape, DecodeValuesKernel<false>, decode);
}

}  // namespace tvq::TVQ_CUDA
