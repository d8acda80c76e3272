#include "client/loadtest/statistics/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "client/loadtest/workload/random.h"

namespace tvq::loadtest {
namespace {

TEST(Histogram, PercentilesAreWithinTheStatedError) {
  Random random(1);
  Histogram histogram;
  std::vector<Nanos> values;
  for (int i = 0; i < 20'000; ++i) {  // 1 ns to 1e13 ns, each power as likely
    values.push_back(static_cast<Nanos>(std::pow(10.0, 13 * random.Uniform())));
    histogram.Record(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double quantile : {0.0, 0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0}) {
    const auto rank = static_cast<size_t>(std::max(1.0, std::ceil(quantile * 20'000)));
    const auto exact = static_cast<double>(values[rank - 1]);
    EXPECT_NEAR(static_cast<double>(histogram.Percentile(quantile)), exact,
                Histogram::kRelativeError * exact)
        << quantile;
  }
  EXPECT_EQ(histogram.min(), values.front());
  EXPECT_EQ(histogram.max(), values.back());
  EXPECT_EQ(histogram.count(), 20'000);
}

TEST(Histogram, SmallValuesAreExact) {
  Histogram histogram;
  for (Nanos value = 0; value < 1024; ++value) histogram.Record(value);
  for (int rank = 1; rank <= 1024; ++rank) EXPECT_EQ(histogram.Percentile(rank / 1024.0), rank - 1);
}

TEST(Histogram, EveryBucketHoldsItsOwnMiddle) {
  // A value recorded alone is given back within the error, at and around every power of two.
  for (int power = 0; power < 62; ++power) {
    for (const Nanos delta : {-1, 0, 1}) {
      const Nanos value = std::max<Nanos>(0, (Nanos{1} << power) + delta);
      Histogram histogram;
      histogram.Record(value);
      histogram.Record(INT64_MAX);  // so that the least value does not round the middle
      EXPECT_NEAR(static_cast<double>(histogram.Percentile(0.5)), static_cast<double>(value),
                  Histogram::kRelativeError * static_cast<double>(value));
    }
  }
}

TEST(Histogram, AddIsAsIfRecordedTogether) {
  Histogram a, b, both;
  for (Nanos value : {5, 70'000, 1'000'000}) {
    a.Record(value, 2);
    both.Record(value, 2);
  }
  for (Nanos value : {3, 900'000'000}) {
    b.Record(value);
    both.Record(value);
  }
  a.Add(b);
  a.Add(Histogram());
  EXPECT_EQ(a.count(), both.count());
  EXPECT_EQ(a.min(), 3);
  EXPECT_EQ(a.max(), 900'000'000);
  EXPECT_EQ(a.mean(), both.mean());
  for (double q : {0.1, 0.5, 0.9}) EXPECT_EQ(a.Percentile(q), both.Percentile(q));
}

TEST(Histogram, EmptyIsZero) {
  const Histogram histogram;
  EXPECT_EQ(histogram.Percentile(0.99), 0);
  EXPECT_EQ(histogram.mean(), 0);
  EXPECT_TRUE(histogram.Buckets().empty());
}

TEST(Histogram, CorrectionPutsInWhatAStallKeptFromBeingSent) {
  // One request of 1.005 s amid 900 of 10 ms: who had sent every 10 ms would have seen 995, 985,
  // ..., 15 ms beside it.
  Histogram raw;
  raw.Record(10 * kMillisecond, 900);
  raw.Record(1005 * kMillisecond);
  const Histogram corrected = raw.CorrectedForOmission(10 * kMillisecond);
  EXPECT_EQ(corrected.count(), 901 + 99);
  // Of 1,000 in order 900 take 10 ms, then come 15, 25, ..., 1,005: rank 990 is 905 ms. The error
  // is that of two buckets, of the 1.005 s and of what is put in.
  EXPECT_NEAR(ToSeconds(raw.Percentile(0.99)), 0.010, 0.010 * Histogram::kRelativeError);
  EXPECT_NEAR(ToSeconds(corrected.Percentile(0.99)), 0.905,
              (1.005 + 0.905) * Histogram::kRelativeError);
  EXPECT_NEAR(ToSeconds(corrected.Percentile(0.9)), 0.010, 0.010 * Histogram::kRelativeError);
}

}  // namespace
}  // namespace tvq::loadtest
