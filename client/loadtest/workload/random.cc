#include "client/loadtest/workload/random.h"

#include <cmath>
#include <numbers>

namespace tvq::loadtest {
namespace {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio, odd

uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

Random::Random(uint64_t seed, uint64_t stream) : state_(Mix(seed) ^ Mix(stream * kGolden + 1)) {}

uint64_t Random::Next() { return Mix(state_ += kGolden); }

double Random::Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

double Random::Exponential() { return -std::log1p(-Uniform()); }

double Random::Normal() {  // Box and Muller, 1958
  const double radius = std::sqrt(2 * Exponential());
  return radius * std::cos(2 * std::numbers::pi * Uniform());
}

}  // namespace tvq::loadtest
