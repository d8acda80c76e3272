// What a layer computes from its input before attention (gated: Transformer-VQ, section 3; GAU).
//
//   x~  = rms(x) * gain + bias                 [D]     or LayerNorm(x) * gain + bias
//   q   = rms_per_head(x~ Wq) * t              [H,K]   t = K^(-1/4)
//   k   = rms_per_head(x~ Wk) * t              [G,K]   G key/value heads, G divides H
//   v   = silu(x~ Wv)                          [G,V]   or x~ Wv
//   g   = silu(x~ Wg)                          [H,V]   or none
//   q_u = q + u,  q_w = q + w                  u, w [H,K], already scaled by t
//
// Without u and w, q_u = q and there is no q_w. With plain heads, q_u = x~ Wq and k = x~ Wk,
// without norms and t.
//
//   attention              heads    u, w     block      norm     v       g
//   VQ, softmax            normed   given*   gated      kRms     kSilu   [N, H, V]
//   soft codebook, encoder normed   none     standard   kLayer   kNone   empty
//   random features        normed   none
//   linear                 plain    none     * where the bias is relative, else none
#ifndef TVQ_KERNELS_OPS_QKVG_PROJECTION_H_
#define TVQ_KERNELS_OPS_QKVG_PROJECTION_H_

#include "kernels/device/tensor.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/norm_rows.h"
#include "kernels/ops/ops.h"

namespace tvq {

// A row's bits depend on that row and, in a prompt, on its chunk's size and its place there.
struct QkvgProjectionArgs {
  Norm norm = Norm::kRms;
  bool plain_heads = false;
  Activation value_activation = Activation::kSilu;
  Matrix<const float> x;                 // [N, D]
  Vector<const float> gain;              // [D]
  Vector<const float> bias;              // [D]
  const LinearWeight* weight = nullptr;  // rows: q [H*K], k [G*K], v [G*V], g [H*V]; in = D
  Matrix<const float> u;                 // [H, K], or of shape [0, 0]: none, as with plain heads
  Matrix<const float> w;                 // like u
  Tensor<float, 3> q_u;                  // [N, H, K]; q if there is no u
  Tensor<float, 3> q_w;                  // [N, H, K]; empty if there is no w
  Tensor<float, 3> k;                    // [N, G, K]
  Tensor<float, 3> v;                    // [N, G, V]
  Tensor<float, 3> g;                    // [N, H, V]; of shape [0,0,0]: the weight has no rows of g
  int64_t chunk_rows = 0;                // see kernels/ops/linear.h

  bool gated() const { return g.dim(2) > 0; }
  bool biased() const { return u.dim(0) > 0; }
};

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_QKVG_PROJECTION_H_
