// Dot products of every row's heads with a table of keys per head, always in float32: codebook
// scores (q+u).C_s for all S codes, position scores (q+w).R_d for all distances d = 0..M.
//
//   out[n,h,s] = x[n,h] . keys[h / (H/P), s]
//
// x [N,H,K], keys [P,S,K] with P dividing H, out [N,H,S]. The order of a sum depends on K alone.
#ifndef TVQ_KERNELS_OPS_ATTENTION_HEAD_SCORES_H_
#define TVQ_KERNELS_OPS_ATTENTION_HEAD_SCORES_H_

#include "kernels/device/memory.h"
#include "kernels/device/tensor.h"
#include "kernels/ops/ops.h"

namespace tvq {

// Keys [P,S,K] in the layout of the device that packed them. `half_norm` [P,S] is what VqAssign
// subtracts from their scores: |key|^2 / 2, unless the caller put halves of other norms there.
struct HeadKeys {
  int64_t heads = 0;
  int64_t rows = 0;
  int64_t width = 0;
  Buffer data;
  Buffer half_norm;
};

struct PackHeadKeysArgs {
  Tensor<const float, 3> keys;  // [P,S,K] in host memory, each dimension above 0
  HeadKeys* packed = nullptr;
};

struct HeadScoresArgs {
  Tensor<const float, 3> x;
  const HeadKeys* keys = nullptr;
  Tensor<float, 3> out;
};

// z[n,h] = argmin_s |k[n,h] - C[h,s]|^2 = argmax_s (k.C_s - |C_s|^2 / 2); the first index on a tie.
// k [N,G,K], codebook [G,S,K], codes [N,G].
struct VqAssignArgs {
  Tensor<const float, 3> k;
  const HeadKeys* codebook = nullptr;
  Matrix<int32_t> codes;
};

// What attention over codes needs of a layer's queries and keys: the scores of N rows of queries
// for all codes and, unless `position_scores` has no keys, for all distances, and the codes of N
// rows of keys. The bits are those of three separate ops.
struct VqScoresArgs {
  HeadScoresArgs code_scores;
  HeadScoresArgs position_scores;
  VqAssignArgs assign;

  bool scores_positions() const { return position_scores.keys != nullptr; }
};

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_ATTENTION_HEAD_SCORES_H_
