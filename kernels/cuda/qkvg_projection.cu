// q_u, q_w, k, v, g of a gated attention unit (kernels/ops/qkvg_projection.h):
//
//   x~ = rms(x) * gain + bias             x [N,D], W [H K + G K + G V + H V, D]
//   q = rms_per_head(x~ Wq) K^(-1/4)      q_u = q + u, q_w = q + w [N,H,K]
//   k = rms_per_head(x~ Wk) K^(-1/4)      [N,G,K]
//   v = silu(x~ Wv) [N,G,V]               g = silu(x~ Wg) [N,H,V]
//
// Three kernels: rows are normed and rounded (linear_rows.cu); one projection, whose outputs go
// straight to q, k, v and g, the latter two through silu (run_linear.cu); and the norm of query and
// key heads, which needs whole heads: N (H + G) K floats in and N (2 H + G) K out, a warp a head.
#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/linear_rows.h"
#include "kernels/cuda/reduce.cuh"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kHeads = 4;  // of a block, a warp each

// q_u holds the raw queries and k the raw keys on entry. Heads 0..H-1 are the queries'.
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
    if (query) q_w[at + i] = normed + w[head * width + i];
    x[i] = query ? normed + u[head * width + i] : normed;
  }
}

}  // namespace

absl::Status CudaQkvgProjection(Device& device, const QkvgProjectionArgs& args) {
  if (!args.biased() || args.norm != Norm::kRms || args.value_activation != Activation::kSilu ||
      !args.gated()) {
    return absl::UnimplementedError(
        "QkvgProjection: the backend 'cuda' has only the gated unit with normed and biased heads");
  }
  const int64_t rows = args.x.dim(0);
  if (rows == 0) return absl::OkStatus();
  const absl::StatusOr<const void*> x = PrepareRows(device,
                                                    {.x = args.x,
                                                     .norm = true,
                                                     .gain = args.gain.data,
                                                     .bias = args.bias.data,
                                                     .chunk_rows = args.chunk_rows},
                                                    args.weight->dtype);
  if (!x.ok()) return x.status();

  const int64_t heads = args.u.dim(0), width = args.u.dim(1), kv_heads = args.k.dim(1);
  const int64_t q = heads * width, k = kv_heads * width, v = kv_heads * args.v.dim(2),
                g = heads * args.g.dim(2);
  absl::Status status =
      RunLinear(device, {.x = *x,
                         .rows = rows,
                         .chunk_rows = args.chunk_rows,
                         .weight = args.weight,
                         .columns = {{0, q, args.q_u.data, q, Activation::kNone},
                                     {q, k, args.k.data, k, Activation::kNone},
                                     {q + k, v, args.v.data, v, Activation::kSilu},
                                     {q + k + v, g, args.g.data, g, Activation::kSilu}},
                         .column_count = 4});
  if (!status.ok()) return status;
  const float t = static_cast<float>(std::pow(static_cast<double>(width), -0.25));
  return Launch("NormHeads", device,
                {.blocks = (rows * (heads + kv_heads) + kHeads - 1) / kHeads,
                 .threads = kHeads * kWarp,
                 .overlaps = true},
                NormHeadsKernel, rows, heads, kv_heads, width, t, args.u.data, args.w.data,
                args.q_u.data, args.q_w.data, args.k.data);
}

}  // namespace tvq::TVQ_CUDA
