// Norms, row by row. x, out [N, D]; gain, bias [D] or empty.
//
//   kRms:   out = x / sqrt(mean(x^2) + epsilon) * gain + bias
//   kLayer: out = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * gain + bias
//           (Ba, Kiros, Hinton 2016, equation 4)
#ifndef TVQ_KERNELS_OPS_NORM_ROWS_H_
#define TVQ_KERNELS_OPS_NORM_ROWS_H_

#include "kernels/device/tensor.h"
#include "kernels/ops/ops.h"

namespace tvq {

enum class Norm : uint8_t { kRms, kLayer };

inline constexpr float kRmsNormEpsilon = 1e-6F;
inline constexpr float kLayerNormEpsilon = 1e-5F;
// As an epsilon, 0 stands for the norm's own, which is one of the above.
inline constexpr float kOwnEpsilon = 0;
constexpr float EpsilonOf(Norm norm, float epsilon) {
  if (epsilon != kOwnEpsilon) return epsilon;
  return norm == Norm::kLayer ? kLayerNormEpsilon : kRmsNormEpsilon;
}

struct NormRowsArgs {
  Norm norm = Norm::kRms;
  Matrix<const float> x;
  Vector<const float> gain;
  Vector<const float> bias;
  Matrix<float> out;  // may be x itself
  float epsilon = kOwnEpsilon;
};

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_NORM_ROWS_H_
