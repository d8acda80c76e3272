#include "kernels/numbers/int8.h"

#include <algorithm>
#include <limits>

namespace tvq {
namespace {

constexpr float kLargest = 127;

}  // namespace

float Int8Scale(float largest) {
  return largest < kLargest * std::numeric_limits<float>::min() ? 1 : largest / kLargest;
}

void QuantizeToInt8(std::span<const float> values, float scale, int8_t* q) {
  // No quotient exceeds 127 by more than two roundings.
  for (const float value : values) *q++ = static_cast<int8_t>(RoundToInt(value / scale));
}

RoundingBound Int8Rounding(std::span<const float> row, float scale) {
  constexpr size_t kPiece = 256;
  double steps = 0;  // squared
  for (size_t begin = 0; begin < row.size(); begin += kPiece) {
    const auto piece = row.subspan(begin, std::min(kPiece, row.size() - begin));
    float in_steps[kPiece];
    std::transform(piece.begin(), piece.end(), in_steps,
                   [scale](float value) { return value / scale; });
    steps += SumOfSquares({in_steps, piece.size()});
  }
  if (steps == 0) return {};  // zeros were zeros
  const double square = static_cast<double>(scale) * scale;
  return {square * static_cast<double>(row.size()) / 4, square * steps};
}

}  // namespace tvq
