// out = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + 1e-5) * gain + bias, row by row (Ba, Kiros,
// Hinton 2016, equation 4). x, out [N, D]; gain, bias [D] or empty.
#ifndef TVQ_KERNELS_OPS_LAYER_NORM_H_
#define TVQ_KERNELS_OPS_LAYER_NORM_H_

#include "absl/status/status.h"
#include "kernels/device/device.h"
#include "kernels/device/tensor.h"

namespace tvq {

inline constexpr float kLayerNormEpsilon = 1e-5F;

struct LayerNormArgs {
  Matrix<const float> x;
  Vector<const float> gain;
  Vector<const float> bias;
  Matrix<float> out;  // may be x itself
};

absl::Status LayerNorm(Device& device, const LayerNormArgs& args);

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_LAYER_NORM_H_
