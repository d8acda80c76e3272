#include "models/verify/rounding.h"

namespace tvq::verify {

double RoundingBound(const ModelInfo& info, Weights weights) {
  const auto products = static_cast<double>(info.products);
  const double bfloat16 = std::exp2(-9);
  const double weight = info.dtype == DType::kInt8 ? info.weight_rounding : bfloat16;
  double squares = 0;
  if (info.dtype != DType::kFloat32) {
    squares += (products + 1) * bfloat16 * bfloat16;
    if (weights == Weights::kExact) squares += (products + 2) * weight * weight;
  }
  if (info.state_dtype == DType::kBFloat16)
    squares += static_cast<double>(info.kept) * bfloat16 * bfloat16;
  return 2 * std::sqrt(squares);
}

double Tf32Bound(int64_t products) {
  return 2 * std::sqrt(2 * static_cast<double>(products + 1)) * std::exp2(-10);
}

}  // namespace tvq::verify
