#include "kernels/numbers/int4.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/numbers/quantize.h"

namespace tvq {
namespace {

// A value's q as a float.
inline float Steps(float value, float inverse) {
  const float nearest = value * inverse + kRoundingShift - kRoundingShift;
  return std::min(std::max(nearest, -8.0F), 7.0F);
}

// Adds in eight sums, which are one or two vector registers.
float SquaredError(const float* group, float scale) {
  constexpr int64_t kSums = 8;
  const float inverse = 1 / scale;
  float sums[kSums] = {};
  for (int64_t i = 0; i < kInt4Group; i += kSums) {
    for (int64_t j = 0; j < kSums; ++j) {
      const float error = group[i + j] - scale * Steps(group[i + j], inverse);
      sums[j] += error * error;
    }
  }
  float sum = 0;
  for (const float part : sums) sum += part;
  return sum;
}

float FirstLargest(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) {
    if (std::abs(value) > std::abs(largest)) largest = value;
  }
  return largest;
}

}  // namespace

BFloat16 QuantizeGroup(std::span<const float> values, int8_t* q) {
  const float largest = FirstLargest(values);
  if (std::abs(largest) < kInt4Tiny) {
    std::fill_n(q, values.size(), int8_t{0});
    return ToBFloat16(1);
  }
  float group[kInt4Group] = {};  // zeros have no error
  std::copy(values.begin(), values.end(), group);
  BFloat16 best{};
  float least = std::numeric_limits<float>::infinity();
  for (int64_t candidate = 0; candidate < kInt4Candidates; ++candidate) {
    const BFloat16 scale = Int4Candidate(largest, candidate);
    const float error = SquaredError(group, ToFloat(scale));
    if (error < least) {
      least = error;
      best = scale;
    }
  }
  const float inverse = 1 / ToFloat(best);
  for (size_t i = 0; i < values.size(); ++i) q[i] = static_cast<int8_t>(Steps(group[i], inverse));
  return best;
}

RoundingBound Int4Rounding(std::span<const float> group, float largest) {
  const double error = largest < kInt4Tiny ? largest : largest / 14.0 * (1 + 0x1p-8);
  return {static_cast<double>(group.size()) * error * error, SumOfSquares(group)};
}

}  // namespace tvq
