// q, k, v and g of a layer (kernels/ops/qkvg_projection.h):
//
//   x~ = norm(x) * gain + bias            x [N,D], W [H K + G K + G V (+ H V), D]
//   q = rms_per_head(x~ Wq) K^(-1/4)      q_u = q + u, q_w = q + w [N,H,K], or q alone
//   k = rms_per_head(x~ Wk) K^(-1/4)      [N,G,K]; plain heads are x~ Wq and x~ Wk
//   v = act(x~ Wv) [N,G,V]                g = silu(x~ Wg) [N,H,V], or none
//
// Rows are normed and rounded (linear_rows.cu); one projection, whose outputs go straight to q, k,
// v and g, the latter two through their activation (run_linear.cu); and unless heads are plain the
// norm of query and key heads, which needs whole heads: N (H + G) K floats in and N (2 H + G) K
// out, a warp a head.
#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/linear_rows.h"
#include "kernels/cuda/reduce.cuh"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kHeads = 4;  // of a block, a warp each

// q_u holds the raw queries and k the raw keys on entry. Heads 0..H-1 are the queries'. u and w are
// null where queries have no biases.
__global__ void __launch_bounds__(kHeads* kWarp)
    NormHeadsKernel(int64_t rows, int64_t heads, int64_t kv_heads, int64_t width, float t,
                    const float* u, const float* w, float* q_u, float* q_w, float* k) {
  LetSuccessorBegin();
  WaitForPredecessor();
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kHeads + WarpId();
  if (index >= rows * (heads + kv_heads)) return;
  const int64_t row = index / (heads + kv_heads), head = index % (heads + kv_heads);
  const bool query = head < heads;
  const int64_t at = query ? (row * heads + head) * width : (row * kv_heads + head - heads) * width;
  float* x = query ? q_u + at : k + at;
  float squares = 0;
  for (int64_t i = LaneId(); i < width; i += kWarp) squares = fmaf(x[i], x[i], squares);
  squares = WarpReduce(squares, Add());
  const float scale = t / sqrtf(squares / static_cast<float>(width) + kRmsNormEpsilon);
  for (int64_t i = LaneId(); i < width; i += kWarp) {
    const float normed = x[i] * scale;
    const bool biased = query && u != nullptr;
    if (biased) q_w[at + i] = normed + w[head * width + i];
    x[i] = biased ? normed + u[head * width + i] : normed;
  }
}

}  // namespace

absl::Status CudaQkvgProjection(Device& device, const QkvgProjectionArgs& args) {
  const int64_t rows = args.x.dim(0);
  if (rows == 0) return absl::OkStatus();
  const absl::StatusOr<const void*> x = PrepareRows(device,
                                                    {.x = args.x,
                                                     .norm = args.norm,
                                                     .gain = args.gain.data,
                                                     .bias = args.bias.data,
                                                     .chunk_rows = args.chunk_rows},
                                                    args.weight->dtype);
  if (!x.ok()) return x.status();

  const int64_t heads = args.q_u.dim(1), width = args.q_u.dim(2), kv_heads = args.k.dim(1);
  const int64_t q = heads * width, k = kv_heads * width, v = kv_heads * args.v.dim(2),
                g = heads * args.g.dim(2);
  absl::Status status =
      RunLinear(device, {.x = *x,
                         .rows = rows,
                         .chunk_rows = args.chunk_rows,
                         .weight = args.weight,
                         .columns = {{0, q, args.q_u.data, q, Activation::kNone},
                                     {q, k, args.k.data, k, Activation::kNone},
                                     {q + k, v, args.v.data, v, args.value_activation},
                                     {q + k + v, g, args.g.data, g, Activation::kSilu}},
                         .column_count = args.gated() ? 4 : 3});
  if (!status.ok() || args.plain_heads) return status;
  const float t = static_cast<float>(std::pow(static_cast<double>(width), -0.25));
  return Launch("NormHeads", device,
                {.blocks = (rows * (heads + kv_heads) + kHeads - 1) / kHeads,
                 .threads = kHeads * kWarp,
                 .overlaps = true},
                NormHeadsKernel, rows, heads, kv_heads, width, t,
                args.biased() ? args.u.data : nullptr, args.w.data, args.q_u.data, args.q_w.data,
                args.k.data);
}

}  // namespace tvq::TVQ_CUDA
