// What those who round weights to integers share: loops that compilers turn into vector
// instructions, for weights are quantized when a server starts.
#ifndef TVQ_KERNELS_NUMBERS_QUANTIZE_H_
#define TVQ_KERNELS_NUMBERS_QUANTIZE_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

namespace tvq {

// The largest |value|, 0 of none; infinity or NaN where one of them is not finite. Numbers are in
// the order of their bits, and integers have an order for any of them.
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

// In four sums of float32, which are a vector: of few values, none above 2^60.
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

// A bound of what rounding changes: of the sum of squared errors, and the sum of squares of what
// was rounded. Bounds of parts add up.
struct RoundingBound {
  double errors = 0;
  double squares = 0;

  void Add(const RoundingBound& part) {
    errors += part.errors;
    squares += part.squares;
  }
  // In the root mean square.
  double Relative() const { return squares > 0 ? std::sqrt(errors / squares) : 0; }
};

// Added to a value below 2^22 it leaves no bits for a fraction: to nearest, ties to even.
inline constexpr float kRoundingShift = 0x1.8p23F;

inline int32_t RoundToInt(float value) {
  return std::bit_cast<int32_t>(value + kRoundingShift) - std::bit_cast<int32_t>(kRoundingShift);
}

}  // namespace tvq

#endif  // TVQ_KERNELS_NUMBERS_QUANTIZE_H_
