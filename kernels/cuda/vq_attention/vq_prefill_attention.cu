// Attention of T consecutive positions of one session, in spans of up to kVqPrefillSpan queries.
//
//   out_i = (sum_s w_is U[s] + sum_j w_ij v_j) / (sum_s w_is n[s] + sum_j w_ij)
//
// The keys of a span are what the state holds before it (S rows of U, the window's positions) and
// the span's own positions up to the query. Positions that retire within a span are attended to one
// by one: that gives the same sum, and lets all blocks of a span run beside each other. Then the
// span's positions enter the state (vq_append.cu).
//
// Weights: each query and head has a block. The span's scores come from cache, and S + W + (up to
// 256) floats go back to it, with a denominator beside them. Values: weights [Q, keys] times rows
// [keys, V] by matrix instructions. A block of threads computes 64 queries x 64 columns, with 32
// keys at a time in shared memory while the next 32 are loaded into registers. Keys are divided
// into up to four parts, each with a block of its own, until blocks fill a large GPU; the last of
// these to arrive adds the sums of the parts, in order. U and the window are read once per head and
// 64 queries: 4 V (S + W) bytes or less, from the L2 cache after the first.
//
// Factors are sums of bfloat16 (terms.cuh). With float32 values each factor has three terms, which
// is all of a float32, and the six products x_i y_j with i + j < 3 are computed. x1 y2, x2 y1 and
// x2 y2 are left out, less than 2^-24 of sum w |v|. With bfloat16 values a weight and U have two
// terms and a value has one, and the three or two products with i + j < 2 are computed. w and U are
// each 2^-17 off, and w1 U1, 2^-16, is left out: up to 2^-15 of sum w |v|.
//
// An output's order of sums follows from its place in the span and from shapes: nothing that comes
// after it, and no other row, changes its bits.
#include "kernels/cuda/common/kernel.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/terms.cuh"
#include "kernels/cuda/common/tickets.cuh"
#include "kernels/cuda/vq_attention/vq_append.cuh"
#include "kernels/ops/attention/vq_attention.h"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kWeightThreads = 128;
constexpr int kThreads = 128;  // four warps of 32 queries x 32 columns
constexpr int kTile = 64;      // queries and columns of a block
constexpr int kWarpTile = 32;
constexpr int kDepth = 32;  // keys at a time
constexpr int kPairs = kDepth / 2;

__host__ __device__ constexpr int64_t WholeTiles(int64_t keys) {
  return (keys + kDepth - 1) / kDepth * kDepth;
}

struct Span {
  VqShape shape;
  VqState state;
  int64_t first;    // position of the first query
  int64_t queries;  // up to kVqPrefillSpan
  int64_t heads;
  const float* code_scores;  // [queries, H, S], and so on: rows of this span
  const float* position_scores;
  const int32_t* codes;
  const float* v;
  float* weights;      // [queries, H, Stride()]
  float* denominator;  // [queries, H]
  float* out;
  int64_t parts;      // that the keys are divided into, each with a block
  float4* partial;    // sums of the blocks that share a tile, where there are several parts
  uint32_t* tickets;  // of those blocks

  // Keys are codes, slots of the window and the span's own positions, each from a whole tile on.
  __host__ __device__ int64_t Window() const { return WholeTiles(shape.codes); }
  __host__ __device__ int64_t Own() const { return Window() + WholeTiles(shape.window); }
  __host__ __device__ int64_t Stride() const { return Own() + kVqPrefillSpan; }
  // The end of the keys that any query in the block of query i attends to.
  __host__ __device__ int64_t End(int64_t i) const { return Own() + (i / kTile + 1) * kTile; }
};

// Each query and head has a block.
__global__ void __launch_bounds__(kWeightThreads) PrefillWeightsKernel(Span args) {
  struct Shared {
    float partial[kWeightThreads / kWarp];
  };
  float* partial = BlockShared<Shared>().partial;
  const int64_t h = blockIdx.y, i = blockIdx.x;
  const int64_t codes = args.shape.codes, window = args.shape.window;
  const int64_t kv_heads = args.shape.kv_heads, g = h / (args.heads / kv_heads);
  const int64_t row = i * args.heads + h, end = args.End(i);
  const float* code_scores = args.code_scores + row * codes;
  const float* position_scores = args.position_scores + row * window;
  const int64_t* count = args.state.count + g * codes;
  const int32_t* window_code = args.state.window_code + g * window;
  float* weights = args.weights + row * args.Stride();

  // The score of a key; -inf for one that is not there, or comes after the query.
  const auto recent = [&](int64_t distance, int32_t code) {
    return code_scores[code] + (distance < window ? position_scores[distance] : 0);
  };
  const auto score = [&](int64_t key) -> float {
    if (key < args.Window()) {
      return key < codes && count[key] > 0 ? code_scores[key] : -INFINITY;
    }
    if (key < args.Own()) {
      const int64_t slot = key - args.Window();
      if (slot >= window) return -INFINITY;
      // The latest position before the span that takes this slot.
      const int64_t back = (args.first - 1 - slot + window) % window;
      return back < args.first ? recent(i + 1 + back, window_code[slot]) : -INFINITY;
    }
    const int64_t own = key - args.Own();
    return own <= i ? recent(i - own, args.codes[own * kv_heads + g]) : -INFINITY;
  };

  float largest = -INFINITY;
  for (int64_t key = threadIdx.x; key < end; key += kWeightThreads) {
    weights[key] = score(key);
    largest = Max()(largest, weights[key]);
  }
  largest = BlockReduce(largest, partial, Max());
  float sum = 0;
  for (int64_t key = threadIdx.x; key < end; key += kWeightThreads) {
    const float weight = expf(weights[key] - largest);
    weights[key] = weight;
    if (weight != 0) sum = fmaf(weight, key < codes ? static_cast<float>(count[key]) : 1, sum);
  }
  sum = BlockReduce(sum, partial, Add());
  if (threadIdx.x == 0) args.denominator[row] = sum;
}

// How many terms a weight, an element of U and a value of the type that the window holds have.
template <typename T>
struct TermsOf {
  static constexpr int kWeight = 3, kSum = 3, kValue = 3;
};
template <>
struct TermsOf<BFloat16> {
  static constexpr int kWeight = 2, kSum = 2, kValue = 1;
};

// Words hold two bfloat16 that follow one another along the keys. The rows' padding lets the lanes
// of a matrix instruction read from 32 banks.
template <typename T>
struct alignas(16) Shared {
  uint32_t weight[TermsOf<T>::kWeight][kTile][kPairs + 4];
  uint32_t value[TermsOf<T>::kSum][kPairs][kTile + 8];
  uint32_t ticket;
};

// What a thread carries of a tile from memory to shared memory.
struct Carried {
  float4 weight[kTile * kDepth / 4 / kThreads];
  float4 value[kPairs * kTile / 4 / kThreads][2];  // rows 2 p and 2 p + 1
};

// Loads four columns from `column` on of a row of `values` columns, zero beyond.
template <typename T>
__device__ inline float4 LoadColumns(const T* row, int64_t column, int64_t values) {
  if (column + 4 <= values && values % 4 == 0) {
    struct alignas(4 * sizeof(T)) Pack {
      T element[4];
    };
    const Pack pack = *reinterpret_cast<const Pack*>(row + column);
    return {Widen(pack.element[0]), Widen(pack.element[1]), Widen(pack.element[2]),
            Widen(pack.element[3])};
  }
  const auto at = [&](int64_t c) { return c < values ? Widen(row[c]) : 0; };
  return {at(column), at(column + 1), at(column + 2), at(column + 3)};
}

// Values as the window's type holds them, wherever they come from.
template <typename T>
__device__ inline float4 Stored(float4 v) {
  const auto stored = [](float x) {
    T to;
    StoreAs(x, &to);
    return Widen(to);
  };
  return {stored(v.x), stored(v.y), stored(v.z), stored(v.w)};
}

// Computes 64 queries from 64 * (blockIdx.y / H) on, 64 columns, for a part of the keys.
template <typename T>
__global__ void __launch_bounds__(kThreads, TermsOf<T>::kWeight == 3 ? 2 : 3)
    PrefillValuesKernel(Span args) {
  using Terms = TermsOf<T>;
  Shared<T>& shared = BlockShared<Shared<T>>();
  const int64_t values = args.shape.value;
  const int64_t h = blockIdx.y % args.heads, g = h / (args.heads / args.shape.kv_heads);
  const int64_t first_query = static_cast<int64_t>(blockIdx.y) / args.heads * kTile;
  const int64_t part = blockIdx.x % args.parts;
  const int64_t column_tile = static_cast<int64_t>(blockIdx.x) / args.parts;
  const int64_t first_column = column_tile * kTile;
  const int64_t depths = args.End(first_query) / kDepth, stride = args.Stride();
  const int64_t begin = depths * part / args.parts * kDepth;
  const int64_t end = depths * (part + 1) / args.parts * kDepth;
  const int thread = static_cast<int>(threadIdx.x);

  const auto load_values = [&](int64_t key, int64_t column) -> float4 {
    if (key < args.Window()) {
      if (key >= args.shape.codes) return {};
      return LoadColumns(args.state.sum + (g * args.shape.codes + key) * values, column, values);
    }
    if (key < args.Own()) {
      const int64_t slot = key - args.Window();
      if (slot >= args.shape.window) return {};
      // A slot that no position has taken has weight 0, and zeros.
      return LoadColumns(
          static_cast<const T*>(args.state.window_value) + (g * args.shape.window + slot) * values,
          column, values);
    }
    const int64_t own = key - args.Own();
    if (own >= args.queries) return {};
    return Stored<T>(
        LoadColumns(args.v + (own * args.shape.kv_heads + g) * values, column, values));
  };
  // A unit is four keys of a query, and two keys by four columns.
  const auto load = [&](int64_t key) {
    Carried carried;
#pragma unroll
    for (int j = 0; j < kTile * kDepth / 4 / kThreads; ++j) {
      const int unit = thread + j * kThreads;
      const int64_t query = first_query + unit / (kDepth / 4);
      carried.weight[j] = {};
      if (query < args.queries) {
        carried.weight[j] = *reinterpret_cast<const float4*>(
            args.weights + (query * args.heads + h) * stride + key + unit % (kDepth / 4) * 4);
      }
    }
#pragma unroll
    for (int j = 0; j < kPairs * kTile / 4 / kThreads; ++j) {
      const int unit = thread + j * kThreads;
      const int64_t row = key + unit / (kTile / 4) * 2;
      const int64_t column = first_column + unit % (kTile / 4) * 4;
      carried.value[j][0] = load_values(row, column);
      carried.value[j][1] = load_values(row + 1, column);
    }
    return carried;
  };
  const auto store = [&](const Carried& carried) {
#pragma unroll
    for (int j = 0; j < kTile * kDepth / 4 / kThreads; ++j) {
      const int unit = thread + j * kThreads, query = unit / (kDepth / 4);
      const int pair = unit % (kDepth / 4) * 2;
      const float4& w = carried.weight[j];
      uint32_t low[Terms::kWeight], high[Terms::kWeight];
      SplitPair(w.x, w.y, low);
      SplitPair(w.z, w.w, high);
#pragma unroll
      for (int term = 0; term < Terms::kWeight; ++term) {
        shared.weight[term][query][pair] = low[term];
        shared.weight[term][query][pair + 1] = high[term];
      }
    }
#pragma unroll
    for (int j = 0; j < kPairs * kTile / 4 / kThreads; ++j) {
      const int unit = thread + j * kThreads, pair = unit / (kTile / 4);
      const int column = unit % (kTile / 4) * 4;
      const float4 &a = carried.value[j][0], &b = carried.value[j][1];
      uint32_t words[4][Terms::kSum];
      SplitPair(a.x, b.x, words[0]);
      SplitPair(a.y, b.y, words[1]);
      SplitPair(a.z, b.z, words[2]);
      SplitPair(a.w, b.w, words[3]);
#pragma unroll
      for (int term = 0; term < Terms::kSum; ++term) {
        *reinterpret_cast<uint4*>(&shared.value[term][pair][column]) = {
            words[0][term], words[1][term], words[2][term], words[3][term]};
      }
    }
  };

  const int lane_row = LaneId() / 4, lane_pair = LaneId() % 4;
  const int warp_query = WarpId() / 2 * kWarpTile, warp_column = WarpId() % 2 * kWarpTile;
  // Which rows and columns of this warp's instructions exist at all.
  const bool has_rows[2] = {first_query + warp_query < args.queries,
                            first_query + warp_query + 16 < args.queries};
  const int64_t columns_left = values - first_column - warp_column;
  // sum[rows of 16][columns of 8]
  const auto multiply = [&](auto value_terms, float(&sum)[2][4][4]) {
    constexpr int kValueTerms = decltype(value_terms)::value;
#pragma unroll
    for (int k = 0; k < kPairs; k += 8) {
      uint32_t a[2][Terms::kWeight][4];
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        const int row = warp_query + m * 16 + lane_row;
#pragma unroll
        for (int term = 0; term < Terms::kWeight; ++term) {
          a[m][term][0] = shared.weight[term][row][k + lane_pair];
          a[m][term][1] = shared.weight[term][row + 8][k + lane_pair];
          a[m][term][2] = shared.weight[term][row][k + lane_pair + 4];
          a[m][term][3] = shared.weight[term][row + 8][k + lane_pair + 4];
        }
      }
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        if (n * 8 >= columns_left) break;
        const int column = warp_column + n * 8 + lane_row;
#pragma unroll
        for (int term = 0; term < kValueTerms; ++term) {
          const uint32_t b[2] = {shared.value[term][k + lane_pair][column],
                                 shared.value[term][k + lane_pair + 4][column]};
#pragma unroll
          for (int m = 0; m < 2; ++m) {
            if (!has_rows[m]) break;
#pragma unroll
            for (int of_weight = 0; of_weight + term < Terms::kWeight; ++of_weight) {
              MultiplyAdd16x8x16(a[m][of_weight], b, sum[m][n]);
            }
          }
        }
      }
    }
  };

  float sum[2][4][4] = {};
  Carried carried = load(begin);
  for (int64_t key = begin; key < end; key += kDepth) {
    store(carried);
    __syncthreads();
    if (key + kDepth < end) carried = load(key + kDepth);
    if (key < args.Window()) {
      MultiplyTile<Terms::kSum, Terms::kWeight == 3>(multiply, sum);
    } else {
      MultiplyTile<Terms::kValue, Terms::kWeight == 3>(multiply, sum);
    }
    __syncthreads();
  }

  if (args.parts > 1) {
    const int64_t tile = blockIdx.y * (gridDim.x / args.parts) + column_tile;
    const auto partial = [&](int64_t p, int m, int n) -> float4& {
      return args.partial[((tile * args.parts + p) * 8 + m * 4 + n) * kThreads + thread];
    };
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        partial(part, m, n) = {sum[m][n][0], sum[m][n][1], sum[m][n][2], sum[m][n][3]};
      }
    }
    if (!LastToArrive(args.tickets + tile, args.parts, shared.ticket)) return;
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        float4 total = partial(0, m, n);
        for (int64_t p = 1; p < args.parts; ++p) {
          const float4 more = partial(p, m, n);
          total.x += more.x, total.y += more.y, total.z += more.z, total.w += more.w;
        }
        sum[m][n][0] = total.x, sum[m][n][1] = total.y;
        sum[m][n][2] = total.z, sum[m][n][3] = total.w;
      }
    }
  }
#pragma unroll
  for (int m = 0; m < 2; ++m) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int64_t query = first_query + warp_query + m * 16 + lane_row + i / 2 * 8;
        const int64_t column = first_column + warp_column + n * 8 + lane_pair * 2 + i % 2;
        if (query >= args.queries || column >= values) continue;
        const int64_t row = query * args.heads + h;
        args.out[row * values + column] = sum[m][n][i] / args.denominator[row];
      }
    }
  }
}

int64_t ColumnTiles(const VqShape& shape) { return (shape.value + kTile - 1) / kTile; }

// Blocks for a whole span that keep a large GPU (132 to 148 multiprocessors) at work, two each.
constexpr int64_t kEnoughBlocks = 264;

// Into how many parts the keys are divided: as many as it takes to have enough blocks for a whole
// span, at most four.
int64_t PartsFor(const VqShape& shape, int64_t heads) {
  const int64_t blocks = ColumnTiles(shape) * heads * (kVqPrefillSpan / kTile);
  return std::clamp<int64_t>((kEnoughBlocks + blocks - 1) / blocks, 1, 4);
}

absl::Status RunSpan(Device& device, const Span& span) {
  absl::Status status =
      Launch("VqPrefillWeights", device,
             {.blocks = span.queries, .blocks_y = span.heads, .threads = kWeightThreads},
             PrefillWeightsKernel, span);
  if (!status.ok()) return status;
  const LaunchShape shape{.blocks = ColumnTiles(span.shape) * span.parts,
                          .blocks_y = span.heads * ((span.queries + kTile - 1) / kTile),
                          .threads = kThreads};
  status = span.shape.value_dtype == DType::kFloat32
               ? Launch("VqPrefillValues", device, shape, PrefillValuesKernel<float>, span)
               : Launch("VqPrefillValues", device, shape, PrefillValuesKernel<BFloat16>, span);
  if (!status.ok()) return status;
  return RunVqAppendSpan(device,
                         {span.shape, span.state, span.first, span.queries, span.codes, span.v});
}

}  // namespace

absl::Status CudaVqPrefillAttention(Device& device, const VqPrefillAttentionArgs& args) {
  const int64_t tokens = args.code_scores.dim(0), heads = args.code_scores.dim(1);
  Span span{.shape = args.shape, .state = args.state, .heads = heads};
  const int64_t rows = std::min(tokens, kVqPrefillSpan) * heads;
  absl::StatusOr<float*> weights = AsCuda(device).Scratch<float>(1, rows * (span.Stride() + 1));
  if (!weights.ok()) return weights.status();
  span.weights = *weights;
  span.denominator = *weights + rows * span.Stride();
  span.parts = PartsFor(args.shape, heads);
  if (span.parts > 1) {
    const int64_t tiles = ColumnTiles(args.shape) * heads * (kVqPrefillSpan / kTile);
    absl::StatusOr<float4*> partial =
        AsCuda(device).Scratch<float4>(2, tiles * span.parts * kTile * kTile / 4);
    if (!partial.ok()) return partial.status();
    absl::StatusOr<uint32_t*> tickets = AsCuda(device).Tickets(tiles);
    if (!tickets.ok()) return tickets.status();
    span.partial = *partial;
    span.tickets = *tickets;
  }
  for (int64_t row = 0; row < tokens; row += span.queries) {
    span.first = args.position + row;
    span.queries = std::min(kVqPrefillSpan - span.first % kVqPrefillSpan, tokens - row);
    span.code_scores = args.code_scores.row(row);
    span.position_scores = args.position_scores.row(row);
    span.codes = args.codes.row(row);
    span.v = args.v.row(row);
    span.out = args.out.row(row);
    if (absl::Status status = RunSpan(device, span); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace tvq::TVQ_CUDA
