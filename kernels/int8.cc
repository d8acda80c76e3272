#include "kernels/int8.h"

#include <limits>

#include "kernels/quantize.h"

namespace tvq {
namespace {

constexpr float kLargest = 127;

float ScaleOf(std::span<const float> row) {
  const float largest = LargestMagnitude(row);
  return largest < kLargest * std::numeric_limits<float>::min() ? 1 : largest / kLargest;
}

}  // namespace

Int8Matrix QuantizeRows(const float* values, int64_t rows, int64_t width) {
  Int8Matrix matrix{std::vector<int8_t>(static_cast<size_t>(rows * width)),
                    std::vector<float>(static_cast<size_t>(rows))};
  int8_t* to = matrix.values.data();
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = values + r * width;
    const float scale = ScaleOf({row, static_cast<size_t>(width)});
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
