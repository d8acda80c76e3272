// Naive float64 loops. Rows lie row-major [G,F,K].
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/ops/attention/features.h"

namespace tvq {
namespace {

// The exponents of one head, before anything common to all rows is subtracted.
std::vector<double> Exponents(const FeaturesArgs& args, const float* x, int64_t group) {
  const HeadKeys& rows = *args.rows;
  std::vector<double> exponents;
  for (int64_t s = 0; s < rows.rows; ++s) {
    const float* row = rows.data.as<float>() + (group * rows.rows + s) * rows.width;
    double dot = 0, distance = 0, norm = 0;
    for (int64_t i = 0; i < rows.width; ++i) {
      const double a = x[i], b = row[i];
      dot += a * b;
      distance += (a - b) * (a - b);
      norm += a * a;
    }
    const double variance = static_cast<double>(args.sigma) * args.sigma;
    exponents.push_back(args.map == FeatureMap::kSoftAssignment ? -distance / (2 * variance)
                                                                : dot - norm / 2);
  }
  return exponents;
}

void ComputeHead(const FeaturesArgs& args, const float* x, int64_t group, float* out) {
  const std::vector<double> exponents = Exponents(args, x, group);
  const bool positive = args.map == FeatureMap::kPositive;
  const double most = positive ? 0 : *std::max_element(exponents.begin(), exponents.end());
  double total = 0;
  for (const double e : exponents) total += std::exp(e - most);
  if (args.map != FeatureMap::kSoftAssignment) total = 1;
  for (size_t s = 0; s < exponents.size(); ++s) {
    out[s] = static_cast<float>(std::exp(exponents[s] - most) / total);
  }
}

}  // namespace

absl::Status ReferenceFeatures(Device&, const FeaturesArgs& args) {
  if (args.map == FeatureMap::kEluPlusOne) {
    for (int64_t i = 0; i < args.x.size(); ++i) {
      const double x = args.x.data[i];
      args.out.data[i] = static_cast<float>(x > 0 ? x + 1 : std::exp(x));
    }
    return absl::OkStatus();
  }
  const int64_t heads = args.x.dim(1);
  const int64_t shared = heads / args.rows->heads;
  for (int64_t n = 0; n < args.x.dim(0); ++n) {
    for (int64_t h = 0; h < heads; ++h) {
      ComputeHead(args, args.x.row(n) + h * args.x.dim(2), h / shared,
                  args.out.row(n) + h * args.out.dim(2));
    }
  }
  return absl::OkStatus();
}

}  // namespace tvq
