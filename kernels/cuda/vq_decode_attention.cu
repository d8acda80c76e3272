// Attention of one new position of each of N sessions over its constant-size state.
//
//   w_s = exp(code_score[s] - m) for codes with n[s] > 0      w_d = exp(score of distance d - m)
//   out = (sum_s w_s U[s] + sum_d w_d v_d) / (sum_s w_s n[s] + sum_d w_d)
//
// Two phases after the state took in the position (vq_append_step.cu). Weights: a block a session
// and head, S + W scores in, as many weights and one denominator out. Values: every row of U (4 V
// bytes) and of the window (2 or 4 V) once per head, which is nearly all that moves; a block takes
// 64 rows and 128 columns, so that even one session fills the GPU, rows of weight 0 are not read,
// and the partial sums of the blocks are added in their order. Shapes alone decide on splits: a
// session's bits do not depend on N.
#include "kernels/bfloat16.h"
#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vq_append.cuh"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kWeightThreads = 256;
constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;
constexpr int kRowsPerWarp = 8;
constexpr int kRows = kWarps * kRowsPerWarp;  // of a block
constexpr int kPerLane = 4;                   // columns
constexpr int kColumns = kWarp * kPerLane;    // of a block

struct Decode {
  VqShape shape;
  const VqState* states;
  const int64_t* positions;
  int64_t heads;
  const float* code_scores;
  const float* position_scores;
  float* weights;      // [N, H, S + W], window rows by slot
  float* denominator;  // [N, H]
  float* partial;      // [N, H, splits, V]
  float* out;

  __host__ __device__ int64_t Rows() const { return shape.codes + shape.window; }
  __host__ __device__ int64_t Splits() const { return (Rows() + kRows - 1) / kRows; }
};

// The largest score first, then weights and their sum. A block a session and head.
__global__ void __launch_bounds__(kWeightThreads) WeightsKernel(Decode args) {
  struct Shared {
    float partial[kWeightThreads / kWarp];
  };
  float* partial = BlockShared<Shared>().partial;
  const int64_t n = blockIdx.y, h = blockIdx.x;
  const int64_t codes = args.shape.codes, window = args.shape.window;
  const int64_t g = h / (args.heads / args.shape.kv_heads);
  const VqState& state = args.states[n];
  if (state.none()) return;
  const int64_t position = args.positions[n];
  const int64_t recent = position + 1 < window ? position + 1 : window;
  const float* code_scores = args.code_scores + (n * args.heads + h) * codes;
  const float* position_scores = args.position_scores + (n * args.heads + h) * window;
  const int64_t* count = state.count + g * codes;
  const int32_t* window_code = state.window_code + g * window;
  const auto slot = [&](int64_t distance) { return (position - distance) % window; };
  const auto score = [&](int64_t distance) {
    return code_scores[window_code[slot(distance)]] + position_scores[distance];
  };

  float largest = -INFINITY;
  for (int64_t s = threadIdx.x; s < codes; s += kWeightThreads) {
    if (count[s] > 0) largest = Max()(largest, code_scores[s]);
  }
  for (int64_t d = threadIdx.x; d < recent; d += kWeightThreads) largest = Max()(largest, score(d));
  largest = BlockReduce(largest, partial, Max());

  float* weights = args.weights + (n * args.heads + h) * args.Rows();
  float sum = 0;
  for (int64_t s = threadIdx.x; s < codes; s += kWeightThreads) {
    const float weight = count[s] > 0 ? expf(code_scores[s] - largest) : 0;
    weights[s] = weight;
    sum = fmaf(weight, static_cast<float>(count[s]), sum);
  }
  for (int64_t d = threadIdx.x; d < window; d += kWeightThreads) {
    if (d < recent) {
      const float weight = expf(score(d) - largest);
      weights[codes + slot(d)] = weight;
      sum += weight;
    } else {
      weights[codes + d] = 0;  // no position has taken this slot yet
    }
  }
  sum = BlockReduce(sum, partial, Add());
  if (threadIdx.x == 0) args.denominator[n * args.heads + h] = sum;
}

// kAligned: V is a multiple of kPerLane, so that lanes load 16 bytes of U at once.
template <typename T, bool kAligned>
struct RowLoader {
  static __device__ void Load(const T* row, int64_t left, float (&values)[kPerLane]) {
    if constexpr (kAligned) {
      struct alignas(sizeof(T) * kPerLane) Pack {
        T element[kPerLane];
      };
      const Pack pack = *reinterpret_cast<const Pack*>(row);
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) values[i] = Widen(pack.element[i]);
    } else {
      for (int i = 0; i < kPerLane; ++i) values[i] = i < left ? Widen(row[i]) : 0;
    }
  }
};

template <typename T, bool kAligned>
__global__ void __launch_bounds__(kThreads) ValuesKernel(Decode args) {
  struct Shared {
    float weight[kRows];
    float sum[kWarps][kColumns];
  };
  Shared& shared = BlockShared<Shared>();
  const int64_t splits = args.Splits(), rows = args.Rows(), values = args.shape.value;
  const int64_t split = blockIdx.x % splits;
  const int64_t column = static_cast<int64_t>(blockIdx.x) / splits * kColumns + LaneId() * kPerLane;
  const int64_t h = blockIdx.y % args.heads, n = blockIdx.y / args.heads;
  const int64_t g = h / (args.heads / args.shape.kv_heads);
  const VqState& state = args.states[n];
  if (state.none()) return;
  const float* sums = state.sum + g * args.shape.codes * values;
  const T* window = static_cast<const T*>(state.window_value) + g * args.shape.window * values;

  const float* weights = args.weights + (n * args.heads + h) * rows;
  for (int i = static_cast<int>(threadIdx.x); i < kRows; i += kThreads) {
    const int64_t row = split * kRows + i;
    shared.weight[i] = row < rows ? weights[row] : 0;
  }
  __syncthreads();

  float sum[kPerLane] = {};
  if (column < values) {
#pragma unroll
    for (int i = 0; i < kRowsPerWarp; ++i) {
      const int at = i * kWarps + WarpId();
      const float weight = shared.weight[at];
      if (weight == 0) continue;
      const int64_t row = split * kRows + at;
      float value[kPerLane];
      if (row < args.shape.codes) {
        RowLoader<float, kAligned>::Load(sums + row * values + column, values - column, value);
      } else {
        RowLoader<T, kAligned>::Load(window + (row - args.shape.codes) * values + column,
                                     values - column, value);
      }
#pragma unroll
      for (int c = 0; c < kPerLane; ++c) sum[c] = fmaf(weight, value[c], sum[c]);
    }
  }
  for (int c = 0; c < kPerLane; ++c) shared.sum[WarpId()][LaneId() * kPerLane + c] = sum[c];
  __syncthreads();
  const int64_t first = static_cast<int64_t>(blockIdx.x) / splits * kColumns;
  for (int c = static_cast<int>(threadIdx.x); c < kColumns; c += kThreads) {
    if (first + c >= values) continue;
    float total = shared.sum[0][c];
    for (int warp = 1; warp < kWarps; ++warp) total += shared.sum[warp][c];
    args.partial[((n * args.heads + h) * splits + split) * values + first + c] = total;
  }
}

__global__ void __launch_bounds__(kThreads) CombineKernel(Decode args) {
  const int64_t values = args.shape.value, splits = args.Splits();
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t row = blockIdx.y;  // n * H + h
  if (c >= values) return;
  if (args.states[row / args.heads].none()) {
    args.out[row * values + c] = 0;
    return;
  }
  const float* partial = args.partial + row * splits * values + c;
  float sum = partial[0];
  for (int64_t split = 1; split < splits; ++split) sum += partial[split * values];
  args.out[row * values + c] = sum / args.denominator[row];
}

template <typename T>
absl::Status RunValues(Device& device, const Decode& args, int64_t sessions) {
  const int64_t values = args.shape.value;
  const LaunchShape shape{.blocks = (values + kColumns - 1) / kColumns * args.Splits(),
                          .blocks_y = sessions * args.heads,
                          .threads = kThreads};
  return values % kPerLane == 0
             ? Launch("VqDecodeValues", device, shape, ValuesKernel<T, true>, args)
             : Launch("VqDecodeValues", device, shape, ValuesKernel<T, false>, args);
}

}  // namespace

absl::Status CudaVqDecodeAttention(Device& device, const VqDecodeAttentionArgs& args) {
  const int64_t sessions = args.code_scores.dim(0), heads = args.code_scores.dim(1);
  if (sessions == 0) return absl::OkStatus();
  absl::Status status = RunVqAppendStep(device, {args.shape, args.states.data, args.positions.data,
                                                 sessions, args.codes.data, args.v.data});
  if (!status.ok()) return status;
  Decode decode{args.shape,
                args.states.data,
                args.positions.data,
                heads,
                args.code_scores.data,
                args.position_scores.data,
                nullptr,
                nullptr,
                nullptr,
                args.out.data};
  const int64_t rows = sessions * heads;
  CudaDevice& cuda = AsCuda(device);
  absl::StatusOr<float*> weights = cuda.Scratch<float>(1, rows * (decode.Rows() + 1));
  if (!weights.ok()) return weights.status();
  absl::StatusOr<float*> partial =
      cuda.Scratch<float>(2, rows * decode.Splits() * args.shape.value);
  if (!partial.ok()) return partial.status();
  decode.weights = *weights;
  decode.denominator = *weights + rows * decode.Rows();
  decode.partial = *partial;

  status = Launch("VqDecodeWeights", device,
                  {.blocks = heads, .blocks_y = sessions, .threads = kWeightThreads}, WeightsKernel,
                  decode);
  if (!status.ok()) return status;
  status = args.shape.value_dtype == DType::kFloat32
               ? RunValues<float>(device, decode, sessions)
               : RunValues<BFloat16>(device, decode, sessions);
  if (!status.ok()) return status;
  return Launch("VqDecodeCombine", device,
                {.blocks = (args.shape.value + kThreads - 1) / kThreads,
                 .blocks_y = rows,
                 .threads = kThreads},
                CombineKernel, decode);
}

}  // namespace tvq::TVQ_CUDA
