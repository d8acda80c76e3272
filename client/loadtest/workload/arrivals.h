#ifndef TVQ_CLIENT_LOADTEST_WORKLOAD_ARRIVALS_H_
#define TVQ_CLIENT_LOADTEST_WORKLOAD_ARRIVALS_H_

#include <optional>

#include "client/loadtest/workload/random.h"
#include "client/loadtest/workload/time.h"

namespace tvq::loadtest {

// Arrivals per second, changing linearly over a measurement; begin == end: constant.
struct Rate {
  double begin = 0;
  double end = 0;
  double mean() const { return (begin + end) / 2; }
};

// A Poisson process: what many independent clients send, which do not wait for one another. During
// the warm-up the rate is `rate.begin`, after it that of `rate`. With a changing rate r(t) the
// arrivals are those of a process of rate 1, at the times where the integral of r reaches its times
// (inversion; Cinlar, Introduction to Stochastic Processes, 1975, section 4.7).
class PoissonArrivals {
 public:
  // Rates >= 0, not both 0; `duration` > 0.
  PoissonArrivals(Rate rate, Nanos warm_up, Nanos duration, Random random);

  // The next arrival, counted from the begin of the warm-up; nothing when warm-up and duration are
  // over.
  std::optional<Nanos> Next();

  // Expected number of arrivals up to `seconds` (the integral of the rate).
  double Expected(double seconds) const;

 private:
  double TimeOf(double expected) const;  // the inverse of Expected

  const Rate rate_;
  const double warm_up_, duration_;  // seconds
  Random random_;
  double unit_time_ = 0;  // of the process of rate 1
};

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_WORKLOAD_ARRIVALS_H_
