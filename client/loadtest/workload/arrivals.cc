#include "client/loadtest/workload/arrivals.h"

#include <algorithm>
#include <cmath>

namespace tvq::loadtest {

PoissonArrivals::PoissonArrivals(Rate rate, Nanos warm_up, Nanos duration, Random random)
    : rate_(rate), warm_up_(ToSeconds(warm_up)), duration_(ToSeconds(duration)), random_(random) {}

double PoissonArrivals::Expected(double seconds) const {
  const double ramp = std::clamp(seconds - warm_up_, 0.0, duration_);
  return rate_.begin * (std::min(seconds, warm_up_) + ramp) +
         (rate_.end - rate_.begin) * ramp * ramp / (2 * duration_);
}

double PoissonArrivals::TimeOf(double expected) const {
  const double in_warm_up = rate_.begin * warm_up_;
  if (expected < in_warm_up) return expected / rate_.begin;
  // begin * t + slope / 2 * t^2 = rest, solved without cancellation where the slope is small.
  const double rest = expected - in_warm_up, slope = (rate_.end - rate_.begin) / duration_;
  const double root = std::sqrt(std::max(0.0, rate_.begin * rate_.begin + 2 * slope * rest));
  return rest == 0 ? warm_up_ : warm_up_ + 2 * rest / (rate_.begin + root);
}

std::optional<Nanos> PoissonArrivals::Next() {
  unit_time_ += random_.Exponential();
  if (unit_time_ >= Expected(warm_up_ + duration_)) return std::nullopt;
  return FromSeconds(TimeOf(unit_time_));
}

}  // namespace tvq::loadtest
