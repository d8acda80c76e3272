#include "tests/bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tvq::bench {

double Quantile(std::span<const double> values, double q) {
  if (values.empty()) return 0;
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(std::floor(at));
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - std::floor(at)) * (sorted[above] - sorted[below]);
}

uint64_t Fnv1a(std::span<const float> values, uint64_t hash) {
  for (const std::byte byte : std::as_bytes(values)) {
    hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001b3u;
  }
  return hash;
}

}  // namespace tvq::bench
