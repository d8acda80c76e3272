#ifndef TVQ_CLIENT_LOADTEST_WORKLOAD_RANDOM_H_
#define TVQ_CLIENT_LOADTEST_WORKLOAD_RANDOM_H_

#include <cstdint>

namespace tvq::loadtest {

// Pseudo-random numbers that are the same on every machine for a seed (std's distributions are
// not): SplitMix64 (Steele, Lea, Flood 2014). Streams of different (seed, stream) are independent
// for all that a load test can tell.
class Random {
 public:
  explicit Random(uint64_t seed, uint64_t stream = 0);

  uint64_t Next();
  double Uniform();      // [0, 1)
  double Exponential();  // mean 1
  double Normal();       // mean 0, variance 1
  // 0 .. n-1; n > 0 and far below 2^64, so that the modulus' bias does not show.
  uint64_t Below(uint64_t n) { return Next() % n; }

 private:
  uint64_t state_;
};

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_WORKLOAD_RANDOM_H_
