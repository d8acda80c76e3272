// A distribution of durations in fixed buckets. Plain numbers; server/metrics exposes them.
#ifndef TVQ_BASE_HISTOGRAM_H_
#define TVQ_BASE_HISTOGRAM_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace tvq {

struct Histogram {
  // Upper bounds in seconds, included; what is longer falls into one more bucket.
  static constexpr std::array<double, 20> kBounds = {
      0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
      0.25,   0.5,     1,      2.5,   5,      10,    30,   60,    300,  1800};

  void Add(double seconds) {
    const auto* const bound = std::lower_bound(kBounds.begin(), kBounds.end(), seconds);
    ++counts[static_cast<size_t>(bound - kBounds.begin())];
    sum += seconds;
  }

  std::array<int64_t, kBounds.size() + 1> counts{};
  double sum = 0;
};

}  // namespace tvq

#endif  // TVQ_BASE_HISTOGRAM_H_
