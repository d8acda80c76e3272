// Numbers with what float32 may make of them: a formula that is written with them gives its value
// in float64 and a bound of how far off the same formula in float32 can be (running error analysis,
// Higham, Accuracy and Stability of Numerical Algorithms, section 3.3).
#ifndef TVQ_TESTS_KERNELS_OPS_RECURRENT_BOUNDED_H_
#define TVQ_TESTS_KERNELS_OPS_RECURRENT_BOUNDED_H_

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/kernels/ops/op_testing.h"

namespace tvq {

struct Bounded {
  double value = 0;
  double error = 0;

  Bounded() = default;
  // A number that is given in float32 has no error. NOLINTNEXTLINE(google-explicit-constructor)
  Bounded(double exact) : value(exact) {}
  // After so many roundings, of which each may also lose what is less than a normal number.
  Bounded(double v, double e, int roundings)
      : value(v), error(e + Gamma(roundings) * (std::abs(v) + e) + roundings * 0x1p-126) {}

  double Largest() const { return std::abs(value) + error; }
};

inline Bounded operator-(const Bounded& a) { return {-a.value, a.error, 0}; }
inline Bounded operator+(const Bounded& a, const Bounded& b) {
  return {a.value + b.value, a.error + b.error, 1};
}
inline Bounded operator-(const Bounded& a, const Bounded& b) { return a + -b; }
inline Bounded operator*(const Bounded& a, const Bounded& b) {
  return {a.value * b.value, a.Largest() * b.error + a.error * std::abs(b.value), 1};
}
// Also if it is a product with a reciprocal, which is rounded, too.
inline Bounded operator/(const Bounded& a, const Bounded& b) {
  const double quotient = a.value / b.value;
  return {quotient, (a.error + std::abs(quotient) * b.error) / (std::abs(b.value) - b.error), 2};
}

// In whatever order: each term takes part in at most as many additions as there are terms.
inline Bounded Sum(const std::vector<Bounded>& terms) {
  double value = 0, error = 0, largest = 0;
  for (const Bounded& term : terms) {
    value += term.value;
    error += term.error;
    largest += term.Largest();
  }
  return {value, error + Gamma(static_cast<int64_t>(terms.size())) * largest, 0};
}

// Of e^x and log(1 + x): the CPU's e^x is right within 2e-7 of itself, less than 4 * 2^-24
// (kernels/cpu/fast_math-inl.h), Highway's log within 2 units in the last place, which are 4 *
// 2^-24, CUDA's functions within 1.
inline constexpr int kFunctionRoundings = 4;

// Of a function whose slope is at most `slope` near x.
inline Bounded Function(double value, const Bounded& x, double slope, int roundings) {
  return {value, slope * x.error, roundings};
}
inline Bounded Exp(const Bounded& x) {
  return Function(std::exp(x.value), x, std::exp(x.value + x.error), kFunctionRoundings);
}
// The slope is 1 / (2 sqrt(x)), but over an error e the root changes by sqrt(e) at most.
inline Bounded Sqrt(const Bounded& x) {
  const double root = std::sqrt(x.value);
  const double change = std::sqrt(x.error);
  return {root, root > 0 ? std::min(x.error / root, change) : change, 1};
}
// max(x, 0) + log(1 + e^-|x|): two functions and a sum.
inline Bounded Softplus(const Bounded& x) {
  const double value = std::max(x.value, 0.0) + std::log1p(std::exp(-std::abs(x.value)));
  return Function(value, x, 1, 2 * kFunctionRoundings + 1);
}
// 1 / (1 + e^-x): a function, a sum and a quotient.
inline Bounded Sigmoid(const Bounded& x) {
  return Function(1 / (1 + std::exp(-x.value)), x, 0.25, kFunctionRoundings + 3);
}
inline Bounded Silu(const Bounded& x) { return x * Sigmoid(x); }
inline Bounded Clamp(const Bounded& x, double least, double most) {
  return {std::min(std::max(x.value, least), most), x.error, 0};
}

}  // namespace tvq

#endif  // TVQ_TESTS_KERNELS_OPS_RECURRENT_BOUNDED_H_
