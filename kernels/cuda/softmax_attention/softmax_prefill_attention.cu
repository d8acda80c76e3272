// Attention of T consecutive positions of one session over the keys and values of all positions up
// to each, in pages (kernels/ops/attention/softmax_attention.h).
//
// There are two kernels. The first writes the call's keys and values to their pages. In the second
// a block takes 64 queries of a head and 64 or 128 columns, and passes over all keys up to its last
// query, one tile of 64 after the other. For each tile it computes scores by matrix instructions
// and the softmax so far (Milakov, Gimelshein 2018, algorithm 3), and adds the tile's values by
// matrix instructions (Dao et al. 2022). A warp has 16 queries; their scores stay in registers and
// become the weights of the second product there. Keys and values pass through shared memory, 32
// elements of keys or 32 rows of values at a time. Both are read once for 64 queries of a head and
// 128 columns, mostly from the L2 cache.
//
// Factors are sums of bfloat16 (terms.cuh). Queries and float32 keys and values take three terms,
// which is all of a float32. The products x_i y_j with i + j < 3 are computed, so that less than
// 2^-24 is left out. Keys and values that the pages hold as bfloat16 are one term. A weight of
// bfloat16 values takes two terms, so that it is up to 2^-17 off. The products of 32 keys have a
// sum of their own, which is then added in float32. A matrix instruction drops what is below the
// last place of its sum, and over a long context that would lose more than rounding does.
//
// Tiles start at absolute positions, and a query's sums run in the order of tiles. Tiles whose
// positions all come after a query leave its sums as they are. So a query's bits depend neither on
// what comes after it nor on how positions are cut into calls.
#include "kernels/cuda/common/kernel.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/terms.cuh"
#include "kernels/cuda/softmax_attention/softmax_pages.cuh"
#include "kernels/ops/attention/softmax_attention.h"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kAppendThreads = 256;
constexpr int kThreads = 128;
constexpr int kWarpQueries = 16;
constexpr int kQueries = kThreads / kWarp * kWarpQueries;  // of a block
constexpr int kTile = 64;                                  // keys
constexpr int kDepth = 32;                                 // of a product between two barriers
constexpr int kPairs = kDepth / 2;
static_assert(kKeyValuePage % kTile == 0);

template <typename T>
struct SoftmaxPrefill {
  LayerPages<T> layer;
  int64_t position;  // of the first query
  int64_t tokens;
  int64_t heads;
  int64_t window;
  const float* q;
  const float* position_scores;
  const float* k;
  const float* v;
  float* out;
};

// Writes panel blockIdx.x, counted from that of the first position, of key/value head blockIdx.y.
template <typename T>
__global__ void __launch_bounds__(kAppendThreads) AppendKernel(SoftmaxPrefill<T> args) {
  const KeyValueShape& shape = args.layer.shape;
  const int64_t g = blockIdx.y;
  const int64_t panel = (args.position / kKeyPanel + blockIdx.x) * kKeyPanel;
  // Threads side by side write what lies side by side.
  for (int64_t i = threadIdx.x; i < shape.key * kKeyPanel; i += kAppendThreads) {
    const int64_t token = panel + i % kKeyPanel - args.position, element = i / kKeyPanel;
    if (token < 0 || token >= args.tokens) continue;
    StoreAs(args.k[(token * shape.kv_heads + g) * shape.key + element],
            args.layer.Key(g, args.position + token) + element * kKeyPanel);
  }
  for (int64_t i = threadIdx.x; i < shape.value * kKeyPanel; i += kAppendThreads) {
    const int64_t token = panel + i / shape.value - args.position, column = i % shape.value;
    if (token < 0 || token >= args.tokens) continue;
    StoreAs(args.v[(token * shape.kv_heads + g) * shape.value + column],
            args.layer.Value(g, args.position + token) + column);
  }
}

// How many terms a query, a weight, and a key or value of the pages take.
template <typename T>
struct TermsOf {
  static constexpr int kQuery = 3, kWeight = 3, kStored = 3;
};
template <>
struct TermsOf<BFloat16> {
  static constexpr int kQuery = 3, kWeight = 2, kStored = 1;
};

// Words hold two bfloat16 that follow one another along the sum. The rows' padding lets the lanes
// of a matrix instruction read from 32 banks.
template <typename T, int kColumns>
struct alignas(16) Shared {
  uint32_t key[TermsOf<T>::kStored][kPairs][kTile + 8];
  uint32_t value[TermsOf<T>::kStored][kPairs][kColumns + 8];
};

// Loads four elements that lie side by side, of which `left` exist; the others are zero. kAligned:
// they lie at a multiple of their size.
template <bool kAligned, typename T>
__device__ inline float4 LoadFour(const T* from, int64_t left) {
  if (kAligned && left >= 4) {
    struct alignas(4 * sizeof(T)) Pack {
      T element[4];
    };
    const Pack pack = *reinterpret_cast<const Pack*>(from);
    return {Widen(pack.element[0]), Widen(pack.element[1]), Widen(pack.element[2]),
            Widen(pack.element[3])};
  }
  const auto at = [&](int64_t i) { return i < left ? Widen(from[i]) : 0; };
  return {at(0), at(1), at(2), at(3)};
}

// Splits the pairs of two rows of four into terms, and writes these to `to` [term][..][kStride].
template <int kTerms, int kRows, int kStride>
__device__ inline void StorePairs(const float4& a, const float4& b, int row, int column,
                                  uint32_t (&to)[kTerms][kRows][kStride]) {
  uint32_t words[4][kTerms];
  SplitPair(a.x, b.x, words[0]);
  SplitPair(a.y, b.y, words[1]);
  SplitPair(a.z, b.z, words[2]);
  SplitPair(a.w, b.w, words[3]);
#pragma unroll
  for (int term = 0; term < kTerms; ++term) {
    *reinterpret_cast<uint4*>(&to[term][row][column]) = {words[0][term], words[1][term],
                                                         words[2][term], words[3][term]};
  }
}

// sum += the products of a's terms and the terms of 8 columns of `b`, from `column` on, in rows
// from `pair` on.
template <int kTermsA, int kTermsB, int kStride>
__device__ inline void MultiplyTerms(const uint32_t (&a)[kTermsA][4],
                                     const uint32_t (&b)[kTermsB][kPairs][kStride], int pair,
                                     int column, float (&sum)[4]) {
  const int lane_row = LaneId() / 4, lane_pair = LaneId() % 4;
#pragma unroll
  for (int term = 0; term < kTermsB; ++term) {
    const uint32_t words[2] = {b[term][pair + lane_pair][column + lane_row],
                               b[term][pair + lane_pair + 4][column + lane_row]};
#pragma unroll
    for (int of_a = 0; of_a + term < kTermsA; ++of_a) MultiplyAdd16x8x16(a[of_a], words, sum);
  }
}

// blockIdx.x counts the column blocks of the last queries, which take longest, then those of the
// queries before them; blockIdx.y is the head. kAligned: V is a multiple of 4.
template <typename T, int kColumns, bool kAligned>
__global__ void __launch_bounds__(kThreads, 2) AttendKernel(SoftmaxPrefill<T> args) {
  using Terms = TermsOf<T>;
  constexpr int kSteps = kDepth / 16;
  auto& shared = BlockShared<Shared<T, kColumns>>();
  const KeyValueShape& shape = args.layer.shape;
  const int64_t width = shape.key, values = shape.value, h = blockIdx.y;
  const int64_t g = h / (args.heads / shape.kv_heads);
  const int64_t column_blocks = (values + kColumns - 1) / kColumns;
  const int64_t query_blocks = (args.tokens + kQueries - 1) / kQueries;
  const int64_t first_query = (query_blocks - 1 - blockIdx.x / column_blocks) * kQueries;
  const int64_t first_column = blockIdx.x % column_blocks * kColumns;
  const int64_t last_query =
      first_query + kQueries < args.tokens ? first_query + kQueries : args.tokens;
  const int64_t end = args.position + last_query;
  const int thread = static_cast<int>(threadIdx.x);

  // This lane has rows g and g + 8 of the warp's 16, as matrix instructions count them. Rows beyond
  // the call compute with the call's last query and write nothing.
  const int lane_row = LaneId() / 4, lane_pair = LaneId() % 4;
  const int64_t warp_query = first_query + WarpId() * kWarpQueries;
  const int64_t warp_last = args.position + warp_query + kWarpQueries - 1;  // position
  int64_t query[2], position[2];
  const float *q[2], *position_scores[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    query[r] = warp_query + lane_row + r * 8;
    const int64_t row = query[r] < args.tokens ? query[r] : args.tokens - 1;
    position[r] = args.position + row;
    q[r] = args.q + (row * args.heads + h) * width;
    position_scores[r] = args.position_scores + (row * args.heads + h) * args.window;
  }

  float maximum[2] = {-INFINITY, -INFINITY}, total[2] = {};  // total: of this lane's keys
  float out[kColumns / 8][4] = {};
  for (int64_t key = 0; key < end; key += kTile) {
    const bool idle = warp_query >= args.tokens || key > warp_last;
    // score[columns of 8]: d of a matrix instruction.
    float score[kTile / 8][4] = {};
    for (int64_t i0 = 0; i0 < width; i0 += kDepth) {
      // A unit is two elements of four keys.
#pragma unroll
      for (int j = 0; j < kPairs * kTile / 4 / kThreads; ++j) {
        const int unit = thread + j * kThreads;
        const int pair = unit / (kTile / 4), column = unit % (kTile / 4) * 4;
        const T* from = args.layer.Key(g, key + column);
        const int64_t i = i0 + pair * 2, left = end - key - column;
        const float4 a = LoadFour<true>(from + i * kKeyPanel, i < width ? left : 0);
        const float4 b = LoadFour<true>(from + (i + 1) * kKeyPanel, i + 1 < width ? left : 0);
        StorePairs(a, b, pair, column, shared.key);
      }
      __syncthreads();
      if (!idle) {
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          if (i0 + step * 16 >= width) break;
          uint32_t a[Terms::kQuery][4];
#pragma unroll
          for (int part = 0; part < 4; ++part) {
            const int64_t i = i0 + step * 16 + part / 2 * 8 + lane_pair * 2;
            const float* from = q[part % 2];
            uint32_t terms[Terms::kQuery];
            SplitPair(i < width ? from[i] : 0, i + 1 < width ? from[i + 1] : 0, terms);
#pragma unroll
            for (int term = 0; term < Terms::kQuery; ++term) a[term][part] = terms[term];
          }
#pragma unroll
          for (int n = 0; n < kTile / 8; ++n) {
            MultiplyTerms(a, shared.key, step * 8, n * 8, score[n]);
          }
        }
      }
      __syncthreads();
    }

    if (!idle) {
      // Whether any of the warp's queries has a position score for any of the tile's keys.
      const bool near = args.position + warp_query - (key + kTile - 1) < args.window;
      float most[2] = {maximum[0], maximum[1]};
#pragma unroll
      for (int n = 0; n < kTile / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int r = i / 2;
          const int64_t distance = position[r] - (key + n * 8 + lane_pair * 2 + i % 2);
          if (near && distance >= 0 && distance < args.window) {
            score[n][i] += position_scores[r][distance];
          }
          if (distance < 0) score[n][i] = -INFINITY;
          most[r] = Max()(most[r], score[n][i]);
        }
      }
      float factor[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        most[r] = Max()(most[r], ShuffleXor(most[r], 1));
        most[r] = Max()(most[r], ShuffleXor(most[r], 2));
        factor[r] = expf(maximum[r] - most[r]);
        maximum[r] = most[r];
        total[r] *= factor[r];
      }
#pragma unroll
      for (int n = 0; n < kTile / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          score[n][i] = expf(score[n][i] - maximum[i / 2]);
          total[i / 2] += score[n][i];
        }
      }
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) out[n][i] *= factor[i / 2];
      }
    }

#pragma unroll
    for (int half = 0; half < kTile / kDepth; ++half) {
      // A unit is two rows of four columns.
#pragma unroll
      for (int j = 0; j < kPairs * kColumns / 4 / kThreads; ++j) {
        const int unit = thread + j * kThreads;
        const int pair = unit / (kColumns / 4), column = unit % (kColumns / 4) * 4;
        const int64_t row = key + half * kDepth + pair * 2;
        const int64_t left = values - first_column - column;
        const T* from = args.layer.Value(g, row) + first_column + column;
        const float4 a = LoadFour<kAligned>(from, row < end ? left : 0);
        const float4 b = LoadFour<kAligned>(from + values, row + 1 < end ? left : 0);
        StorePairs(a, b, pair, column, shared.value);
      }
      __syncthreads();
      if (!idle) {
        uint32_t a[kSteps][Terms::kWeight][4];
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
#pragma unroll
          for (int part = 0; part < 4; ++part) {
            const float(&d)[4] = score[(half * kSteps + step) * 2 + part / 2];
            uint32_t terms[Terms::kWeight];
            SplitPair(d[part % 2 * 2], d[part % 2 * 2 + 1], terms);
#pragma unroll
            for (int term = 0; term < Terms::kWeight; ++term) a[step][term][part] = terms[term];
          }
        }
#pragma unroll
        for (int n = 0; n < kColumns / 8; ++n) {
          if (first_column + n * 8 >= values) break;
          float partial[4] = {};
#pragma unroll
          for (int step = 0; step < kSteps; ++step) {
            MultiplyTerms(a[step], shared.value, step * 8, n * 8, partial);
          }
#pragma unroll
          for (int i = 0; i < 4; ++i) out[n][i] += partial[i];
        }
      }
      __syncthreads();
    }
  }

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    total[r] += ShuffleXor(total[r], 1);
    total[r] += ShuffleXor(total[r], 2);
  }
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t column = first_column + n * 8 + lane_pair * 2 + i % 2;
      if (query[i / 2] >= args.tokens || column >= values) continue;
      args.out[(query[i / 2] * args.heads + h) * values + column] = out[n][i] / total[i / 2];
    }
  }
}

template <typename T, int kColumns>
absl::Status RunAttend(Device& device, const SoftmaxPrefill<T>& args) {
  const int64_t values = args.layer.shape.value;
  const LaunchShape shape{
      .blocks = (args.tokens + kQueries - 1) / kQueries * ((values + kColumns - 1) / kColumns),
      .blocks_y = args.heads,
      .threads = kThreads};
  return values % 4 == 0
             ? Launch("SoftmaxPrefill", device, shape, AttendKernel<T, kColumns, true>, args)
             : Launch("SoftmaxPrefill", device, shape, AttendKernel<T, kColumns, false>, args);
}

template <typename T>
absl::Status Run(Device& device, const SoftmaxPrefillAttentionArgs& args) {
  const SoftmaxPrefill<T> prefill{.layer = {args.shape, args.layer_offset, args.pages},
                                  .position = args.position,
                                  .tokens = args.q.dim(0),
                                  .heads = args.q.dim(1),
                                  .window = args.position_scores.dim(2),
                                  .q = args.q.data,
                                  .position_scores = args.position_scores.data,
                                  .k = args.k.data,
                                  .v = args.v.data,
                                  .out = args.out.data};
  const int64_t last = args.position + prefill.tokens - 1;
  const absl::Status status = Launch("SoftmaxPrefillAppend", device,
                                     {.blocks = last / kKeyPanel - args.position / kKeyPanel + 1,
                                      .blocks_y = args.shape.kv_heads,
                                      .threads = kAppendThreads},
                                     AppendKernel<T>, prefill);
  if (!status.ok()) return status;
  return args.shape.value <= 64 ? RunAttend<T, 64>(device, prefill)
                                : RunAttend<T, 128>(device, prefill);
}

}  // namespace

absl::Status CudaSoftmaxPrefillAttention(Device& device, const SoftmaxPrefillAttentionArgs& args) {
  if (args.q.dim(0) == 0) return absl::OkStatus();
  return args.shape.dtype == DType::kFloat32 ? Run<float>(device, args)
                                             : Run<BFloat16>(device, args);
}

}  // namespace tvq::TVQ_CUDA
