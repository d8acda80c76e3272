#ifndef TVQ_CLIENT_LOADTEST_STATISTICS_HISTOGRAM_H_
#define TVQ_CLIENT_LOADTEST_STATISTICS_HISTOGRAM_H_

#include <cstdint>
#include <vector>

#include "client/loadtest/workload/time.h"

namespace tvq::loadtest {

// Durations, counted in buckets as HdrHistogram does: exact below 1,024 ns, from there 512 buckets
// for each power of two. A percentile is the middle of its bucket, so it lies within 1/1024 (0.1%)
// of the true value; count, sum, least and largest are exact. At most 230 KB, whatever was
// recorded.
class Histogram {
 public:
  // Largest relative error of a percentile.
  static constexpr double kRelativeError = 1.0 / 1024;

  // `value` < 0 counts as 0.
  void Record(Nanos value, int64_t count = 1);
  void Add(const Histogram& other);

  // What a client that waits for each answer before the next request would have seen if requests
  // had been sent every `interval` (> 0) in spite of it: beside a value v stand v - interval, v - 2
  // interval, ... (Tene, "How NOT to measure latency"; HdrHistogram's
  // copyCorrectedForCoordinatedOmission).
  Histogram CorrectedForOmission(Nanos interval) const;

  int64_t count() const { return count_; }
  Nanos min() const { return count_ > 0 ? min_ : 0; }
  Nanos max() const { return max_; }
  double mean() const { return count_ > 0 ? sum_ / static_cast<double>(count_) : 0; }
  // The value at rank ceil(quantile * count) in order; `quantile` in [0, 1]; 0 without values.
  Nanos Percentile(double quantile) const;

  struct Bucket {
    Nanos value;  // its middle, within least and largest
    int64_t count;
  };
  // Those that hold something, in order.
  std::vector<Bucket> Buckets() const;

 private:
  Nanos Middle(size_t index) const;

  std::vector<int64_t> counts_;
  int64_t count_ = 0;
  double sum_ = 0;
  Nanos min_ = 0, max_ = 0;
};

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_STATISTICS_HISTOGRAM_H_
