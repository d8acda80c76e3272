// out = x / sqrt(mean(x^2) + 1e-6) * gain + bias, row by row. x, out [N, D]; gain, bias [D] or
// empty.
#ifndef TVQ_KERNELS_OPS_RMS_NORM_H_
#define TVQ_KERNELS_OPS_RMS_NORM_H_

#include "absl/status/status.h"
#include "kernels/device/device.h"
#include "kernels/device/tensor.h"

namespace tvq {

inline constexpr float kRmsNormEpsilon = 1e-6F;

struct RmsNormArgs {
  Matrix<const float> x;
  Vector<const float> gain;
  Vector<const float> bias;
  Matrix<float> out;  // may be x itself
};

absl::Status RmsNorm(Device& device, const RmsNormArgs& args);

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_RMS_NORM_H_
