#include "client/loadtest/workload/arrivals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tvq::loadtest {
namespace {

// Bounds below are 5 standard deviations of what they bound: with right code a seed fails once in
// 1.7 million.
constexpr double kSigmas = 5;

std::vector<double> All(PoissonArrivals arrivals) {
  std::vector<double> times;
  while (const auto time = arrivals.Next()) times.push_back(ToSeconds(*time));
  return times;
}

TEST(PoissonArrivals, GapsAreExponential) {
  constexpr double kRate = 200, kLength = 500;
  const auto times = All(PoissonArrivals({kRate, kRate}, 0, FromSeconds(kLength), Random(1)));
  // The count is Poisson: mean and variance rate * length.
  const double expected = kRate * kLength;
  EXPECT_NEAR(static_cast<double>(times.size()), expected, kSigmas * std::sqrt(expected));

  double sum = 0, squares = 0;
  for (size_t i = 1; i < times.size(); ++i) {
    const double gap = (times[i] - times[i - 1]) * kRate;
    sum += gap;
    squares += gap * gap;
  }
  const auto n = static_cast<double>(times.size() - 1);
  const double mean = sum / n, variance = squares / n - mean * mean;
  // Exponential of mean 1: variance 1 of the mean's addends; the sample variance has variance
  // (mu4 - sigma^4) / n = (9 - 1) / n.
  EXPECT_NEAR(mean, 1, kSigmas / std::sqrt(n));
  EXPECT_NEAR(variance, 1, kSigmas * std::sqrt(8 / n));
}

TEST(PoissonArrivals, ARampHasTheRateOfItsTime) {
  constexpr double kWarmUp = 10, kLength = 100;
  const Rate ramp{20, 220};
  const PoissonArrivals arrivals(ramp, FromSeconds(kWarmUp), FromSeconds(kLength), Random(2));
  const auto times = All(arrivals);
  // In each tenth of the time the count is Poisson of the rate's integral, by the trapezoid rule.
  const double part = (kWarmUp + kLength) / 10;
  for (int i = 0; i < 10; ++i) {
    const double begin = part * i, end = begin + part;
    const auto rate = [&](double t) {
      return t < kWarmUp ? ramp.begin
                         : ramp.begin + (ramp.end - ramp.begin) * (t - kWarmUp) / kLength;
    };
    double expected = 0;
    constexpr int kSlices = 10'000;
    for (int j = 0; j < kSlices; ++j)
      expected += rate(begin + part * (j + 0.5) / kSlices) * part / kSlices;
    EXPECT_NEAR(arrivals.Expected(end) - arrivals.Expected(begin), expected, 1e-3 * expected);
    int64_t count = 0;
    for (const double time : times) count += time >= begin && time < end ? 1 : 0;
    EXPECT_NEAR(static_cast<double>(count), expected, kSigmas * std::sqrt(expected)) << begin;
  }
}

TEST(PoissonArrivals, ComeInOrderAndInTime) {
  for (const Rate rate : {Rate{50, 50}, Rate{0, 100}, Rate{100, 0}}) {
    const auto times = All(PoissonArrivals(rate, kSecond, 10 * kSecond, Random(3)));
    ASSERT_FALSE(times.empty());
    for (size_t i = 1; i < times.size(); ++i) EXPECT_LE(times[i - 1], times[i]);
    EXPECT_GE(times.front(), rate.begin == 0 ? 1 : 0);
    EXPECT_LT(times.back(), 11);
  }
}

TEST(PoissonArrivals, ASeedIsARun) {
  const auto run = [](uint64_t seed) {
    return All(PoissonArrivals({10, 20}, 0, 10 * kSecond, Random(seed)));
  };
  EXPECT_EQ(run(7), run(7));
  EXPECT_NE(run(7), run(8));
}

}  // namespace
}  // namespace tvq::loadtest
