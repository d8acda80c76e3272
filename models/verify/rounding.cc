#include "models/verify/rounding.h"

namespace tvq::verify {

double RoundingBound(const ModelInfo& info, Weights weights) {
  const auto products = static_cast<double>(info.products);
  // This also bounds the rounding of what the CPU multiplies with int8 and int4 weights: it is
  // 2^-15 of 1.004 times the largest of n values, which is less than 2^-9 of their root mean square
  // up to n = 4,063.
  const double bfloat16 = std::exp2(-9);
  const double weight = info.dtype == DType::kBFloat16 ? bfloat16 : info.weight_rounding;
  double squares = 0;
  if (info.dtype != DType::kFloat32) {
    squares += (products + 1 + static_cast<double>(info.factors)) * bfloat16 * bfloat16;
    if (weights == Weights::kExact) squares += (products + 2) * weight * weight;
  }
  if (info.state_dtype == DType::kBFloat16)
    squares += static_cast<double>(info.kept) * bfloat16 * bfloat16;
  return 2 * std::sqrt(squares);
}

double Tf32Bound(int64_t products) {
  return 2 * std::sqrt(2 * static_cast<double>(products + 1)) * std::exp2(-10);
}

double ReadsBound(const ModelInfo& info) {
  const double step = info.reads.int8 ? 1.0 / 127 : 0;
  const double mass = info.reads.skip_mass;
  return 2 * std::sqrt(static_cast<double>(info.kept)) * (step + 2 * mass / (1 - mass));
}

}  // namespace tvq::verify
