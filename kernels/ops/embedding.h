// Token embedding, optionally with a scaled absolute sinusoid (`position.scale`).
//
//   out[i] = table[ids[i]] + scale * [sin(p_i / lam^(2c/D)), cos(p_i / lam^(2c/D))],  c = 0..D/2-1
//
// ids [N], positions [N], table [vocab, D], out [N, D].
#ifndef TVQ_KERNELS_OPS_EMBEDDING_H_
#define TVQ_KERNELS_OPS_EMBEDDING_H_

#include "kernels/device/tensor.h"
#include "kernels/ops/ops.h"

namespace tvq {

// INVALID_ARGUMENT also when an id is outside [0, vocab).
struct EmbeddingArgs {
  const void* table = nullptr;  // [vocab, D] of `dtype`, not int4
  DType dtype = DType::kFloat32;
  Vector<const float> scales;  // [vocab], of an int8 table
  int64_t vocab = 0;
  Vector<const int32_t> ids;
  Vector<const int64_t> positions;  // read only when position_scale != 0
  float position_scale = 0;
  double position_lam = 100000;
  Matrix<float> out;
};

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_EMBEDDING_H_
