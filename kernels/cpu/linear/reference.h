// The dot products of the reference backend, for the ops that contain a linear.
#ifndef TVQ_KERNELS_CPU_LINEAR_REFERENCE_H_
#define TVQ_KERNELS_CPU_LINEAR_REFERENCE_H_

#include <cmath>
#include <numbers>

#include "kernels/numbers/bfloat16.h"
#include "kernels/numbers/int4.h"
#include "kernels/ops/linear.h"

namespace tvq {

// x . W[o] in float64; x is rounded to bfloat16 for a bfloat16 weight, and not for others.
inline double ReferenceDot(const float* x, const LinearWeight& weight, int64_t o) {
  const int64_t start = o * weight.in;
  double sum = 0;
  for (int64_t i = 0; i < weight.in; ++i) {
    const double value = x[i];
    if (weight.dtype == DType::kFloat32) {
      sum += value * weight.data.as<float>()[start + i];
    } else if (weight.dtype == DType::kBFloat16) {
      const double rounded = ToFloat(ToBFloat16(x[i]));
      sum += rounded * ToFloat(weight.data.as<BFloat16>()[start + i]);
    } else if (weight.dtype == DType::kInt8) {
      sum += value * weight.data.as<int8_t>()[start + i];
    } else {
      const float scale = weight.scales.as<float>()[o * Int4Groups(weight.in) + i / kInt4Group];
      sum += value * scale * weight.data.as<int8_t>()[start + i];
    }
  }
  return weight.dtype == DType::kInt8 ? sum * weight.scales.as<float>()[o] : sum;
}

inline double ReferenceActivation(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone:
      break;
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kGelu:
      return 0.5 * x *
             (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::kSquaredRelu:
      return x < 0 ? 0 : x * x;
  }
  return x;
}

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_LINEAR_REFERENCE_H_
