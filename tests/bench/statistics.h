// Summaries of repeated measurements.
#ifndef TVQ_TESTS_BENCH_STATISTICS_H_
#define TVQ_TESTS_BENCH_STATISTICS_H_

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

namespace tvq::bench {

// The q-quantile (0..1) by linear interpolation between order statistics; 0 of nothing.
double Quantile(std::span<const double> values, double q);
inline double Median(std::span<const double> values) { return Quantile(values, 0.5); }

// FNV-1a (Fowler, Noll, Vo) over the bytes, continuing from `hash`.
inline constexpr uint64_t kFnvStart = 0xcbf29ce484222325u;
uint64_t Fnv1a(std::span<const float> values, uint64_t hash = kFnvStart);

class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace tvq::bench

#endif  // TVQ_TESTS_BENCH_STATISTICS_H_
