#ifndef TVQ_CLIENT_LOADTEST_WORKLOAD_TIME_H_
#define TVQ_CLIENT_LOADTEST_WORKLOAD_TIME_H_

#include <cmath>
#include <cstdint>

namespace tvq::loadtest {

// Nanoseconds: a duration, or a time since an origin that the context names.
using Nanos = int64_t;

inline constexpr Nanos kMillisecond = 1'000'000;
inline constexpr Nanos kSecond = 1'000'000'000;

inline Nanos FromSeconds(double seconds) { return std::llround(seconds * 1e9); }
constexpr double ToSeconds(Nanos nanos) { return static_cast<double>(nanos) * 1e-9; }

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_WORKLOAD_TIME_H_
