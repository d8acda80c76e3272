#include "kernels/int8.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace tvq {
namespace {

constexpr float kLargest = 127;

// Loops that compilers turn into vector instructions: weights are quantized when a server starts.
// Finite numbers are in the order of their bits, and integers have an order for any of them.
float ScaleOf(const float* row, int64_t width) {
  int32_t bits = 0;
  for (int64_t i = 0; i < width; ++i) {
    bits = std::max(bits, std::bit_cast<int32_t>(row[i]) & 0x7fffffff);
  }
  const float largest = std::bit_cast<float>(bits);
  return largest < kLargest * std::numeric_limits<float>::min() ? 1 : largest / kLargest;
}

// To nearest, ties to even, of values below 2^22: the sum has no bits for a fraction.
int32_t RoundToInt(float value) {
  constexpr float kShift = 0x1.8p23F;
  return std::bit_cast<int32_t>(value + kShift) - std::bit_cast<int32_t>(kShift);
}

}  // namespace

Int8Matrix QuantizeRows(const float* values, int64_t rows, int64_t width) {
  Int8Matrix matrix{std::vector<int8_t>(static_cast<size_t>(rows * width)),
                    std::vector<float>(static_cast<size_t>(rows))};
  int8_t* to = matrix.values.data();
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = values + r * width;
    const float scale = ScaleOf(row, width);
    matrix.scales[static_cast<size_t>(r)] = scale;
    // No quotient exceeds 127 by more than two roundings.
    for (int64_t i = 0; i < width; ++i) to[i] = static_cast<int8_t>(RoundToInt(row[i] / scale));
    to += width;
  }
  return matrix;
}

std::vector<float> DequantizeRows(const int8_t* values, const float* scales, int64_t rows,
                                  int64_t width) {
  std::vector<float> floats(static_cast<size_t>(rows * width));
  float* to = floats.data();
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < width; ++i) *to++ = scales[r] * static_cast<float>(*values++);
  }
  return floats;
}

}  // namespace tvq
