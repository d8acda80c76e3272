// Attention of T consecutive positions of one session (kernels/ops/attention/linear_attention.h),
// in spans of up to 8 blocks of 64 positions:
//
//   out_i = (q_i^T A + sum_j w_ij v_j) / (q_i . b + sum_j w_ij)     w_ij = q_i . k_j
//
// with A and b as they stood when the block of position i began, and j of the block up to i.
//
// A span takes three kernels, each over all of its blocks at once. The first adds the span's
// positions to A and b in their order, with sums and carries of an element in registers all the
// while (a thread has 8 rows of a column; keys and values of 32 positions at a time are in shared
// memory). It writes copies of A and b as they stand at the beginning of each block: 16 F V bytes
// of the state, and 4 F V of a copy for each block. The second computes denominators and the
// products w of a block's queries and keys, 64 x 64 over F, zero for keys behind a query. The third
// multiplies queries by A's copy and products by values, 64 queries x 64 columns over F + 64, as
// one chain of sums. Keys, queries, values and copies come from the L2 cache. Factors and sums are
// float32.
//
// An output's order of sums follows from shapes and its place in the block: nothing that comes
// after it changes its bits.
#include <algorithm>

#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/linear_attention/linear_attention.cuh"
#include "kernels/numbers/two_sum.h"
#include "kernels/ops/attention/linear_attention.h"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int64_t kBlock = kLinearPrefillBlock;
constexpr int64_t kSpanBlocks = 8;

constexpr int kAppendThreads = 128;
constexpr int kAppendRows = 8;  // of A, that a thread holds
constexpr int kMostAppendRows = kAppendThreads / kWarp * kAppendRows;
constexpr int kAppendPositions = 32;  // in shared memory
constexpr int kThreads = 256;
constexpr int kTile = 64;   // queries, and keys or columns, of a block of threads
constexpr int kDepth = 32;  // in shared memory
constexpr int kPart = 4;    // kPart x kPart sums are a thread's
constexpr int kParts = kTile / kPart;
static_assert(kTile == kBlock && kThreads == kParts * kParts && kWarp % kParts == 0);

struct Span {
  LinearShape shape;
  LinearState state;
  int64_t first;   // position of the first row
  int64_t tokens;  // rows, of up to kSpanBlocks blocks
  int64_t heads;
  const float* q;  // rows of this span, and so on
  const float* k;
  const float* v;
  float* a;            // [blocks, G, F, V]
  float* b;            // [blocks, G, F]
  float* products;     // [tokens, H, kBlock]
  float* denominator;  // [tokens, H]
  float* out;

  __host__ __device__ int64_t Blocks() const {
    return (first % kBlock + tokens + kBlock - 1) / kBlock;
  }
  // Rows of block i are [Begin(i), Begin(i + 1)).
  __host__ __device__ int64_t Begin(int64_t i) const {
    const int64_t begin = i * kBlock - first % kBlock;
    if (begin < 0) return 0;
    return begin < tokens ? begin : tokens;
  }

  // A block of threads adds to so many columns of A, in whole warps, and to AppendBlockRows() rows.
  __host__ __device__ int AppendColumns() const {
    int columns = kWarp;
    while (columns < kAppendThreads && columns < shape.value) columns *= 2;
    return columns;
  }
  __host__ __device__ int AppendBlockRows() const {
    return kAppendThreads / AppendColumns() * kAppendRows;
  }
  __host__ __device__ int64_t ColumnBlocks() const {
    return (shape.value + AppendColumns() - 1) / AppendColumns();
  }
  __host__ __device__ int64_t RowBlocks() const {
    return (shape.features + AppendBlockRows() - 1) / AppendBlockRows();
  }
  // Blocks that add to b: a thread has one element.
  __host__ __device__ int64_t KeyBlocks() const {
    return (shape.features + kAppendThreads - 1) / kAppendThreads;
  }
};

// Block `tile` of those that add to A: all rows of the first columns come first.
__device__ inline void AppendValues(const Span& span, int64_t g, int64_t tile) {
  struct alignas(16) Shared {
    float key[kAppendPositions][kMostAppendRows];
    float value[kAppendPositions][kAppendThreads];
  };
  Shared& shared = BlockShared<Shared>();
  const int64_t features = span.shape.features, values = span.shape.value;
  const int64_t kv_heads = span.shape.kv_heads;
  const int columns = span.AppendColumns(), thread = static_cast<int>(threadIdx.x);
  const int group = thread / columns * kAppendRows;
  const int64_t first_row = tile % span.RowBlocks() * span.AppendBlockRows();
  const int64_t first_column = tile / span.RowBlocks() * columns;
  const int64_t column = first_column + thread % columns;
  const auto there = [&](int r) { return column < values && first_row + group + r < features; };
  const auto element = [&](int r) {
    return (g * features + first_row + group + r) * values + column;
  };

  float sum[kAppendRows], carry[kAppendRows];
#pragma unroll
  for (int r = 0; r < kAppendRows; ++r) {
    sum[r] = there(r) ? span.state.key_value_sum[element(r)] : 0;
    carry[r] = there(r) ? span.state.key_value_carry[element(r)] : 0;
  }
  for (int64_t block = 0; block < span.Blocks(); ++block) {
    float* copy = span.a + block * kv_heads * features * values;
#pragma unroll
    for (int r = 0; r < kAppendRows; ++r) {
      if (there(r)) copy[element(r)] = sum[r];
    }
    const int64_t end = span.Begin(block + 1);
    for (int64_t t0 = span.Begin(block); t0 < end; t0 += kAppendPositions) {
      const int positions = static_cast<int>(min(int64_t{kAppendPositions}, end - t0));
      for (int i = thread; i < positions * kMostAppendRows; i += kAppendThreads) {
        const int64_t t = t0 + i / kMostAppendRows, row = first_row + i % kMostAppendRows;
        shared.key[i / kMostAppendRows][i % kMostAppendRows] =
            row < features ? span.k[(t * kv_heads + g) * features + row] : 0;
      }
      for (int i = thread; i < positions * columns; i += kAppendThreads) {
        const int64_t t = t0 + i / columns, c = first_column + i % columns;
        shared.value[i / columns][i % columns] =
            c < values ? span.v[(t * kv_heads + g) * values + c] : 0;
      }
      __syncthreads();
      for (int t = 0; t < positions; ++t) {
        const float value = shared.value[t][thread % columns];
#pragma unroll
        for (int r = 0; r < kAppendRows; ++r) {
          AddTwoSum(shared.key[t][group + r] * value, sum[r], carry[r]);
        }
      }
      __syncthreads();
    }
  }
#pragma unroll
  for (int r = 0; r < kAppendRows; ++r) {
    if (!there(r)) continue;
    span.state.key_value_sum[element(r)] = sum[r];
    span.state.key_value_carry[element(r)] = carry[r];
  }
}

// Adds to element `row` of a head's b.
__device__ inline void AppendKey(const Span& span, int64_t g, int64_t row) {
  const int64_t features = span.shape.features, kv_heads = span.shape.kv_heads;
  const int64_t element = g * features + row;
  float sum = span.state.key_sum[element], carry = span.state.key_carry[element];
  for (int64_t block = 0; block < span.Blocks(); ++block) {
    span.b[block * kv_heads * features + element] = sum;
    const int64_t end = span.Begin(block + 1);
#pragma unroll 8
    for (int64_t t = span.Begin(block); t < end; ++t) {
      AddTwoSum(span.k[t * kv_heads * features + element], sum, carry);
    }
  }
  span.state.key_sum[element] = sum;
  span.state.key_carry[element] = carry;
}

// blockIdx.y is the key/value head; blockIdx.x counts the blocks that add to A, then those that add
// to b.
__global__ void __launch_bounds__(kAppendThreads) LinearAppendKernel(Span span) {
  const int64_t g = blockIdx.y, tiles = span.ColumnBlocks() * span.RowBlocks();
  if (blockIdx.x < tiles) {
    AppendValues(span, g, blockIdx.x);
    return;
  }
  const int64_t row = (blockIdx.x - tiles) * kAppendThreads + threadIdx.x;
  if (row < span.shape.features) AppendKey(span, g, row);
}

struct alignas(16) Tile {
  float row[kDepth][kTile + 4];
  float column[kDepth][kTile + 4];
};

// sum[i][j] += the sum over k below `depth` of row(r, k) column(c, k), as one chain, for the
// thread's rows r and columns c from kPart (thread / kParts) and kPart (thread % kParts) on. In
// memory rows are contiguous along k, columns along k (kAlongDepth) or along c.
template <bool kAlongDepth, class Row, class Column>
__device__ inline void MultiplyTile(int64_t depth, const Row& row, const Column& column, Tile& tile,
                                    float (&sum)[kPart][kPart]) {
  const int thread = static_cast<int>(threadIdx.x);
  const int first_row = thread / kParts * kPart, first_column = thread % kParts * kPart;
  for (int64_t k0 = 0; k0 < depth; k0 += kDepth) {
#pragma unroll
    for (int i = 0; i < kTile * kDepth / kThreads; ++i) {
      const int unit = thread + i * kThreads;
      const int r = unit / kDepth, k = unit % kDepth;
      tile.row[k][r] = k0 + k < depth ? row(r, k0 + k) : 0;
      const int c = kAlongDepth ? r : unit % kTile, of_c = kAlongDepth ? k : unit / kTile;
      tile.column[of_c][c] = k0 + of_c < depth ? column(c, k0 + of_c) : 0;
    }
    __syncthreads();
#pragma unroll 8
    for (int k = 0; k < kDepth; ++k) {
      const float4 x = *reinterpret_cast<const float4*>(&tile.row[k][first_row]);
      const float4 y = *reinterpret_cast<const float4*>(&tile.column[k][first_column]);
      const float of_row[kPart] = {x.x, x.y, x.z, x.w}, of_column[kPart] = {y.x, y.y, y.z, y.w};
#pragma unroll
      for (int i = 0; i < kPart; ++i) {
#pragma unroll
        for (int j = 0; j < kPart; ++j) sum[i][j] = fmaf(of_row[i], of_column[j], sum[i][j]);
      }
    }
    __syncthreads();
  }
}

// Computes products and denominators of block blockIdx.x, head blockIdx.y.
__global__ void __launch_bounds__(kThreads, 2) LinearProductsKernel(Span span) {
  Tile& tile = BlockShared<Tile>();
  const int64_t block = blockIdx.x, h = blockIdx.y, features = span.shape.features;
  const int64_t kv_heads = span.shape.kv_heads, g = h / (span.heads / kv_heads);
  const int64_t begin = span.Begin(block), count = span.Begin(block + 1) - begin;
  const auto query = [&](int64_t i, int64_t f) {
    return i < count ? span.q[((begin + i) * span.heads + h) * features + f] : 0;
  };
  const auto key = [&](int64_t j, int64_t f) {
    return j < count ? span.k[((begin + j) * kv_heads + g) * features + f] : 0;
  };
  float sum[kPart][kPart] = {};
  MultiplyTile<true>(features, query, key, tile, sum);

  const int thread = static_cast<int>(threadIdx.x), part = thread % kParts;
  const float* b = span.b + (block * kv_heads + g) * features;
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
    const int64_t at = thread / kParts * kPart + i;
    float total = 0;
    for (int64_t f = part; f < features; f += kParts) total = fmaf(query(at, f), b[f], total);
#pragma unroll
    for (int j = 0; j < kPart; ++j) {
      if (part * kPart + j > at) sum[i][j] = 0;
      total += sum[i][j];
    }
    // Adds over the threads that share the query.
    for (int step = kParts / 2; step > 0; step /= 2) total += ShuffleXor(total, step);
    if (at >= count) continue;
    const int64_t row = (begin + at) * span.heads + h;
    *reinterpret_cast<float4*>(span.products + row * kBlock + part * kPart) = {
        sum[i][0], sum[i][1], sum[i][2], sum[i][3]};
    if (part == 0) span.denominator[row] = total;
  }
}

// blockIdx.y is the head; blockIdx.x counts the columns of the first block of positions, 64 each,
// then those of the next.
__global__ void __launch_bounds__(kThreads, 2) LinearValuesKernel(Span span) {
  Tile& tile = BlockShared<Tile>();
  const int64_t features = span.shape.features, values = span.shape.value;
  const int64_t kv_heads = span.shape.kv_heads, h = blockIdx.y;
  const int64_t g = h / (span.heads / kv_heads), tiles = (values + kTile - 1) / kTile;
  const int64_t block = static_cast<int64_t>(blockIdx.x) / tiles;
  const int64_t first_column = static_cast<int64_t>(blockIdx.x) % tiles * kTile;
  const int64_t begin = span.Begin(block), count = span.Begin(block + 1) - begin;
  const auto head = [&](int64_t i) { return (begin + i) * span.heads + h; };
  const float* a = span.a + (block * kv_heads + g) * features * values + first_column;
  const float* v = span.v + (begin * kv_heads + g) * values + first_column;
  const int64_t columns = values - first_column;

  float sum[kPart][kPart] = {};
  MultiplyTile<false>(
      features,
      [&](int64_t i, int64_t f) { return i < count ? span.q[head(i) * features + f] : 0; },
      [&](int64_t c, int64_t f) { return c < columns ? a[f * values + c] : 0; }, tile, sum);
  MultiplyTile<false>(
      count,
      [&](int64_t i, int64_t j) { return i < count ? span.products[head(i) * kBlock + j] : 0; },
      [&](int64_t c, int64_t j) { return c < columns ? v[j * kv_heads * values + c] : 0; }, tile,
      sum);

  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
    const int64_t at = thread / kParts * kPart + i;
    if (at >= count) continue;
    const float denominator = span.denominator[head(at)];
#pragma unroll
    for (int j = 0; j < kPart; ++j) {
      const int64_t c = thread % kParts * kPart + j;
      if (c < columns) span.out[head(at) * values + first_column + c] = sum[i][j] / denominator;
    }
  }
}

absl::Status RunSpan(Device& device, const Span& span) {
  absl::Status status = Launch("LinearAppend", device,
                               {.blocks = span.ColumnBlocks() * span.RowBlocks() + span.KeyBlocks(),
                                .blocks_y = span.shape.kv_heads,
                                .threads = kAppendThreads},
                               LinearAppendKernel, span);
  if (!status.ok()) return status;
  status = Launch("LinearProducts", device,
                  {.blocks = span.Blocks(), .blocks_y = span.heads, .threads = kThreads},
                  LinearProductsKernel, span);
  if (!status.ok()) return status;
  const int64_t tiles = (span.shape.value + kTile - 1) / kTile;
  return Launch("LinearValues", device,
                {.blocks = tiles * span.Blocks(), .blocks_y = span.heads, .threads = kThreads},
                LinearValuesKernel, span);
}

}  // namespace

absl::Status CudaLinearPrefillAttention(Device& device, const LinearPrefillAttentionArgs& args) {
  if (args.query_exponents) return NoExponents("LinearPrefillAttention");
  const int64_t tokens = args.q.dim(0), heads = args.q.dim(1);
  const LinearShape& shape = args.shape;
  Span span{.shape = shape, .state = args.state, .heads = heads};
  // As many as the first span may have, wherever it begins: scratch must not grow with a position.
  const int64_t blocks = std::min(kSpanBlocks, (tokens + kBlock - 2) / kBlock + 1);
  const int64_t rows = std::min(tokens, kSpanBlocks * kBlock) * heads;
  const int64_t keys = blocks * shape.kv_heads * shape.features;
  CudaDevice& cuda = AsCuda(device);
  absl::StatusOr<float*> copies = cuda.Scratch<float>(0, keys * (shape.value + 1));
  if (!copies.ok()) return copies.status();
  absl::StatusOr<float*> products = cuda.Scratch<float>(1, rows * (kBlock + 1));
  if (!products.ok()) return products.status();
  span.a = *copies;
  span.b = *copies + keys * shape.value;
  span.products = *products;
  span.denominator = *products + rows * kBlock;
  for (int64_t row = 0; row < tokens; row += span.tokens) {
    span.first = args.position + row;
    span.tokens = std::min(kSpanBlocks * kBlock - span.first % kBlock, tokens - row);
    span.q = args.q.row(row);
    span.k = args.k.row(row);
    span.v = args.v.row(row);
    span.out = args.out.row(row);
    if (absl::Status status = RunSpan(device, span); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace tvq::TVQ_CUDA
