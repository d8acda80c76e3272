// q, k, v and g of a layer (kernels/ops/qkvg_projection.h):
//
//   x~ = norm(x) * gain + bias            x [N,D], W [H K + G K + G V (+ H V), D]
//   q = rms_per_head(x~ Wq) K^(-1/4)      q_u = q + u, q_w = q + w [N,H,K], or q alone
//   k = rms_per_head(x~ Wk) K^(-1/4)      [N,G,K]; plain heads are x~ Wq and x~ Wk
//   v = act(x~ Wv) [N,G,V]                g = silu(x~ Wg) [N,H,V], or none
//
// One projection (run_linear.cu) norms and rounds its rows. Its outputs go straight to q, k, v and
// g, the latter two through their activation. Unless heads are plain, query and key heads are
// normed as soon as a whole one is there: N (H + G) K floats from cache and N (2 H + G) K out. The
// heads of a chunk of a prompt are normed by a kernel of its own.
#include <cmath>

#include "kernels/cuda/common/kernel.cuh"
#include "kernels/cuda/linear/head_norm.cuh"
#include "kernels/cuda/linear/linear_rows.h"
#include "kernels/ops/qkvg_projection.h"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kHeads = 4;  // of a block, with a warp for each

__global__ void __launch_bounds__(kHeads* kWarp) NormHeadsKernel(int64_t rows, HeadNorm norm) {
  LetSuccessorBegin();
  WaitForPredecessor();
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kHeads + WarpId();
  const int64_t heads = norm.heads + norm.kv_heads;
  if (index >= rows * heads) return;
  NormHead(norm, index / heads, static_cast<int>(index % heads));
}

}  // namespace

absl::Status CudaQkvgProjection(Device& device, const QkvgProjectionArgs& args) {
  const int64_t rows = args.x.dim(0);
  if (rows == 0) return absl::OkStatus();
  const int64_t heads = args.q_u.dim(1), width = args.q_u.dim(2), kv_heads = args.k.dim(1);
  const int64_t q = heads * width, k = kv_heads * width, v = kv_heads * args.v.dim(2),
                g = heads * args.g.dim(2);
  HeadNorm norm;
  if (!args.plain_heads) {
    norm = {.heads = heads,
            .kv_heads = kv_heads,
            .width = width,
            .scale = static_cast<float>(std::pow(static_cast<double>(width), -0.25)),
            .u = args.biased() ? args.u.data : nullptr,
            .w = args.w.data,
            .q_u = args.q_u.data,
            .q_w = args.q_w.data,
            .k = args.k.data};
  }
  const bool chunk = args.chunk_rows > 0;
  const absl::Status status =
      RunLinear(device, {.source = {.x = args.x,
                                    .norm = args.norm,
                                    .gain = args.gain.data,
                                    .bias = args.bias.data,
                                    .chunk_rows = args.chunk_rows},
                         .weight = args.weight,
                         .columns = {{0, q, args.q_u.data, q, Activation::kNone},
                                     {q, k, args.k.data, k, Activation::kNone},
                                     {q + k, v, args.v.data, v, args.value_activation},
                                     {q + k + v, g, args.g.data, g, Activation::kSilu}},
                         .column_count = args.gated() ? 4 : 3,
                         .heads = chunk ? HeadNorm{} : norm});
  if (!status.ok() || args.plain_heads || !chunk) return status;
  return Launch("NormHeads", device,
                {.blocks = (rows * (heads + kv_heads) + kHeads - 1) / kHeads,
                 .threads = kHeads * kWarp,
                 .overlaps = true},
                NormHeadsKernel, rows, norm);
}

}  // namespace tvq::TVQ_CUDA
