// What a gated attention unit computes from its input before attention (Transformer-VQ, section 3;
// GAU).
//
//   x~  = rms(x) * gain + bias                 [D]
//   q   = rms_per_head(x~ Wq) * t              [H,K]   t = K^(-1/4)
//   k   = rms_per_head(x~ Wk) * t              [G,K]   G key/value heads, G divides H
//   v   = silu(x~ Wv)                          [G,V]
//   g   = silu(x~ Wg)                          [H,V]
//   q_u = q + u,  q_w = q + w                  u, w [H,K], already scaled by t
#ifndef TVQ_KERNELS_OPS_QKVG_PROJECTION_H_
#define TVQ_KERNELS_OPS_QKVG_PROJECTION_H_

#include "absl/status/status.h"
#include "kernels/device.h"
#include "kernels/ops/linear.h"
#include "kernels/tensor.h"

namespace tvq {

struct QkvgProjectionArgs {
  Matrix<const float> x;                 // [N, D]
  Vector<const float> gain;              // [D]
  Vector<const float> bias;              // [D]
  const LinearWeight* weight = nullptr;  // rows: q [H*K], k [G*K], v [G*V], g [H*V]; in = D
  Matrix<const float> u;                 // [H, K]
  Matrix<const float> w;                 // [H, K]
  Tensor<float, 3> q_u;                  // [N, H, K]
  Tensor<float, 3> q_w;                  // [N, H, K]
  Tensor<float, 3> k;                    // [N, G, K]
  Tensor<float, 3> v;                    // [N, G, V]
  Tensor<float, 3> g;                    // [N, H, V]
  int64_t chunk_rows = 0;                // see kernels/ops/linear.h
};

absl::Status QkvgProjection(Device& device, const QkvgProjectionArgs& args);

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_QKVG_PROJECTION_H_
