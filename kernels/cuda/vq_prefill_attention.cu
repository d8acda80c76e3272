// Attention of T consecutive positions of one session, in blocks of kVqPrefillBlock queries.
//
// Per block the keys are what the state holds before the block (S rows of U, the window's
// positions) and the block's own positions. Weights: a warp a query and head, [B, H, S + W + B]
// floats, beside a denominator each. Values: one product of weights and rows of values per head, 64
// queries x 64 columns a block of threads, 16 keys at a time through shared memory, so that U and
// the window are read once per head and block. Then the block's positions enter the state.
#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vq_append.cuh"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;
constexpr int kTile = 64;      // queries and columns of a block of threads
constexpr int kDepth = 16;     // keys in shared memory
constexpr int kPerThread = 4;  // queries and columns
static_assert(kTile == kVqPrefillBlock && kTile / kPerThread * kTile / kPerThread == kThreads);

struct Block {
  VqShape shape;
  VqState state;
  int64_t first;    // position of the first query
  int64_t queries;  // up to kVqPrefillBlock
  int64_t heads;
  const float* code_scores;  // [queries, H, S], and so on: rows of this block
  const float* position_scores;
  const int32_t* codes;
  const float* v;
  float* weights;      // [queries, H, Keys()]
  float* denominator;  // [queries, H]
  float* out;

  // Codes, then slots of the window, then the block's own positions.
  __host__ __device__ int64_t Keys() const { return shape.codes + shape.window + queries; }
};

// A warp a query and head.
__global__ void __launch_bounds__(kThreads) PrefillWeightsKernel(Block args) {
  const int64_t h = blockIdx.x, i = static_cast<int64_t>(blockIdx.y) * kWarps + WarpId();
  if (i >= args.queries) return;
  const int64_t codes = args.shape.codes, window = args.shape.window;
  const int64_t kv_heads = args.shape.kv_heads, g = h / (args.heads / kv_heads);
  const int64_t row = i * args.heads + h;
  const float* code_scores = args.code_scores + row * codes;
  const float* position_scores = args.position_scores + row * window;
  const int64_t* count = args.state.count + g * codes;
  const int32_t* window_code = args.state.window_code + g * window;

  // The score of a key; -inf for one that is not there, or comes after the query.
  const auto score = [&](int64_t key) -> float {
    if (key < codes) return count[key] > 0 ? code_scores[key] : -INFINITY;
    int64_t distance = 0;
    int32_t code = 0;
    if (key < codes + window) {
      const int64_t slot = key - codes;
      // The latest position before the block that takes this slot.
      const int64_t back = (args.first - 1 - slot + window) % window;
      if (back >= args.first) return -INFINITY;
      distance = i + 1 + back;
      code = window_code[slot];
    } else {
      distance = i - (key - codes - window);
      if (distance < 0) return -INFINITY;
      code = args.codes[(i - distance) * kv_heads + g];
    }
    return code_scores[code] + (distance < window ? position_scores[distance] : 0);
  };

  float largest = -INFINITY;
  for (int64_t key = LaneId(); key < args.Keys(); key += kWarp) {
    largest = Max()(largest, score(key));
  }
  largest = WarpReduce(largest, Max());
  float sum = 0;
  for (int64_t key = LaneId(); key < args.Keys(); key += kWarp) {
    const float weight = expf(score(key) - largest);
    args.weights[row * args.Keys() + key] = weight;
    sum = fmaf(weight, key < codes ? static_cast<float>(count[key]) : 1, sum);
  }
  sum = WarpReduce(sum, Add());
  if (LaneId() == 0) args.denominator[row] = sum;
}

template <typename T>
__global__ void __launch_bounds__(kThreads) PrefillValuesKernel(Block args) {
  struct Shared {
    float weight[kDepth][kTile];
    float value[kDepth][kTile];
  };
  Shared& shared = BlockShared<Shared>();
  const int64_t codes = args.shape.codes, window = args.shape.window, values = args.shape.value;
  const int64_t h = blockIdx.y, g = h / (args.heads / args.shape.kv_heads);
  const int64_t first_column = static_cast<int64_t>(blockIdx.x) * kTile;
  const int thread = static_cast<int>(threadIdx.x);
  const int query = thread / (kTile / kPerThread) * kPerThread;
  const int column = thread % (kTile / kPerThread) * kPerThread;
  const int64_t keys = args.Keys();

  // Values pass through the window's type, wherever they lie.
  const auto value = [&](int64_t key, int64_t c) -> float {
    if (key >= keys || c >= values) return 0;
    if (key < codes) return args.state.sum[(g * codes + key) * values + c];
    if (key < codes + window) {
      // A slot that no position has taken has weight 0, and zeros.
      return Widen(
          static_cast<const T*>(args.state.window_value)[(g * window + key - codes) * values + c]);
    }
    T stored;
    StoreAs(args.v[((key - codes - window) * args.shape.kv_heads + g) * values + c], &stored);
    return Widen(stored);
  };

  float sum[kPerThread][kPerThread] = {};
  for (int64_t first = 0; first < keys; first += kDepth) {
    for (int e = thread; e < kDepth * kTile; e += kThreads) {
      const int k = e % kDepth, i = e / kDepth;
      shared.weight[k][i] = i < args.queries && first + k < keys
                                ? args.weights[(i * args.heads + h) * keys + first + k]
                                : 0;
      shared.value[e / kTile][e % kTile] = value(first + e / kTile, first_column + e % kTile);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
        for (int c = 0; c < kPerThread; ++c) {
          sum[i][c] = fmaf(shared.weight[k][query + i], shared.value[k][column + c], sum[i][c]);
        }
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < kPerThread; ++i) {
    if (query + i >= args.queries) return;
    const int64_t row = (query + i) * args.heads + h;
    for (int c = 0; c < kPerThread; ++c) {
      if (first_column + column + c >= values) break;
      args.out[row * values + first_column + column + c] = sum[i][c] / args.denominator[row];
    }
  }
}

absl::Status RunBlock(Device& device, const Block& block) {
  absl::Status status = Launch("VqPrefillWeights", device,
                               {.blocks = block.heads,
                                .blocks_y = (block.queries + kWarps - 1) / kWarps,
                                .threads = kThreads},
                               PrefillWeightsKernel, block);
  if (!status.ok()) return status;
  const LaunchShape shape{.blocks = (block.shape.value + kTile - 1) / kTile,
                          .blocks_y = block.heads,
                          .threads = kThreads};
  status = block.shape.value_dtype == DType::kFloat32
               ? Launch("VqPrefillValues", device, shape, PrefillValuesKernel<float>, block)
               : Launch("VqPrefillValues", device, shape, PrefillValuesKernel<BFloat16>, block);
  if (!status.ok()) return status;
  return RunVqAppend(device, {.shape = block.shape,
                              .state = block.state,
                              .position = block.first,
                              .sessions = 1,
                              .tokens = block.queries,
                              .codes = block.codes,
                              .v = block.v});
}

}  // namespace

absl::Status CudaVqPrefillAttention(Device& device, const VqPrefillAttentionArgs& args) {
  const int64_t tokens = args.code_scores.dim(0), heads = args.code_scores.dim(1);
  const int64_t keys = args.shape.codes + args.shape.window + kVqPrefillBlock;
  absl::StatusOr<float*> weights =
      AsCuda(device).Scratch<float>(1, kVqPrefillBlock * heads * (keys + 1));
  if (!weights.ok()) return weights.status();
  for (int64_t row = 0; row < tokens;) {
    const int64_t first = args.position + row;
    const int64_t queries = std::min(kVqPrefillBlock - first % kVqPrefillBlock, tokens - row);
    const absl::Status status =
        RunBlock(device, {args.shape, args.state, first, queries, heads, args.code_scores.row(row),
                          args.position_scores.row(row), args.codes.row(row), args.v.row(row),
                          *weights + kVqPrefillBlock * heads, *weights, args.out.row(row)});
    if (!status.ok()) return status;
    row += queries;
  }
  return absl::OkStatus();
}

}  // namespace tvq::TVQ_CUDA
