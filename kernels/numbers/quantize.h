// What the code that rounds weights to integers shares. Compilers turn its loops into vector
// instructions, which matters since weights are quantized when a server starts.
#ifndef TVQ_KERNELS_NUMBERS_QUANTIZE_H_
#define TVQ_KERNELS_NUMBERS_QUANTIZE_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

namespace tvq {

// The largest |value|, 0 of none; infinity or NaN where one of them is not finite. Magnitudes are
// compared as integers, by their bits: the order is the same, and NaN has a place in it.
inline float LargestMagnitude(std::span<const float> values) {
  int32_t bits = 0;
  for (const float value : values) {
    bits = std::max(bits, std::bit_cast<int32_t>(value) & 0x7fffffff);
  }
  return std::bit_cast<float>(bits);
}

// The same of two magnitudes.
inline float LargerMagnitude(float a, float b) {
  return std::bit_cast<float>(std::max(std::bit_cast<int32_t>(a), std::bit_cast<int32_t>(b)));
}

// Adds in four float32 sums, which are one vector register. For few values, none above 2^60 in
// magnitude.
inline double SumOfSquares(std::span<const float> values) {
  constexpr size_t kSums = 4;
  float sums[kSums] = {};
  size_t i = 0;
  for (; i + kSums <= values.size(); i += kSums) {
    for (size_t j = 0; j < kSums; ++j) sums[j] += values[i + j] * values[i + j];
  }
  for (; i < values.size(); ++i) sums[0] += values[i] * values[i];
  return static_cast<double>(sums[0]) + sums[1] + sums[2] + sums[3];
}

// A bound of what rounding changes: a bound of the sum of squared errors, and the sum of squares of
// the values that were rounded. Bounds of parts add up.
struct RoundingBound {
  double errors = 0;
  double squares = 0;

  void Add(const RoundingBound& part) {
    errors += part.errors;
    squares += part.squares;
  }
  // The error relative to the values, both as root mean squares.
  double Relative() const { return squares > 0 ? std::sqrt(errors / squares) : 0; }
};

// A value below 2^22 that is added to it loses its fraction: it is rounded to the nearest integer,
// ties to even.
inline constexpr float kRoundingShift = 0x1.8p23F;

inline int32_t RoundToInt(float value) {
  return std::bit_cast<int32_t>(value + kRoundingShift) - std::bit_cast<int32_t>(kRoundingShift);
}

}  // namespace tvq

#endif  // TVQ_KERNELS_NUMBERS_QUANTIZE_H_
