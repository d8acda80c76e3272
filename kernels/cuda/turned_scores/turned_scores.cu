// out[n,h,d] = q[n,h] . (Rot(d) - Rot(M)) C[g, z_(i-d)]   (kernels/ops/attention/turned_scores.h)
//
// Each row and query head has a block; each of its warps takes one distance at a time. Per distance
// a warp reads a code, K numbers of the codebook and K of `turns`, both from cache: beside them N H
// K floats come in and N H W go out. A sum's order follows from K alone.
#include "kernels/cuda/common/kernel.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/ops/attention/turned_scores.h"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kThreads = 128;

// In decode, rows are sessions: `states` and `positions` [N]. In prefill, where these are null,
// rows are positions from `position` on of the one `state`.
struct Rows {
  const VqState* states;
  const int64_t* positions;
  VqState state;
  int64_t position;
};

__global__ void __launch_bounds__(kThreads)
    TurnedScoresKernel(Rows rows, const float* codebook, const float* turns, const float* q,
                       const int32_t* codes, int64_t heads, int64_t kv_heads, int64_t key_codes,
                       int64_t window, int64_t width, float* out) {
  LetSuccessorBegin();
  WaitForPredecessor();
  const int64_t n = blockIdx.x, h = blockIdx.y;
  const int64_t g = h / (heads / kv_heads), half = width / 2;
  const bool decode = rows.states != nullptr;
  const VqState state = decode ? rows.states[n] : rows.state;
  const int64_t position = decode ? rows.positions[n] : rows.position + n;
  const int64_t before = decode ? 0 : n;  // rows of the call that the state does not have
  const float* x = q + (n * heads + h) * width;
  for (int64_t d = WarpId(); d < window; d += kThreads / kWarp) {
    float sum = 0;
    if (!state.none() && d <= position) {
      const int32_t code = d <= before ? codes[(n - d) * kv_heads + g]
                                       : state.window_code[g * window + (position - d) % window];
      const float* key = codebook + (g * key_codes + code) * width;
      const float* turn = turns + d * width;
      for (int64_t c = LaneId(); c < half; c += kWarp) {
        const float cos = turn[c], sin = turn[half + c];
        sum = fmaf(fmaf(x[c], cos, x[half + c] * sin), key[c], sum);
        sum = fmaf(fmaf(x[half + c], cos, -(x[c] * sin)), key[half + c], sum);
      }
    }
    sum = WarpReduce(sum, Add());
    if (LaneId() == 0) out[(n * heads + h) * window + d] = sum;
  }
}

absl::Status Run(Device& device, const Rows& rows, const TurnedKeys& keys, Tensor<const float, 3> q,
                 const int32_t* codes, float* out) {
  if (q.size() == 0) return absl::OkStatus();
  const VqShape& shape = keys.shape;
  return Launch("TurnedScores", device,
                {.blocks = q.dim(0), .blocks_y = q.dim(1), .threads = kThreads, .overlaps = true},
                TurnedScoresKernel, rows, keys.codebook.data, keys.turns.data, q.data, codes,
                q.dim(1), shape.kv_heads, shape.codes, shape.window, q.dim(2), out);
}

}  // namespace

absl::Status CudaTurnedDecodeScores(Device& device, const TurnedDecodeScoresArgs& args) {
  return Run(device, {args.states.data, args.positions.data, {}, 0}, args.keys, args.q,
             args.codes.data, args.out.data);
}

absl::Status CudaTurnedPrefillScores(Device& device, const TurnedPrefillScoresArgs& args) {
  return Run(device, {nullptr, nullptr, args.state, args.position}, args.keys, args.q,
             args.codes.data, args.out.data);
}

}  // namespace tvq::TVQ_CUDA
