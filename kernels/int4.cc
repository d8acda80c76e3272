#include "kernels/int4.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/bfloat16.h"
#include "kernels/quantize.h"

namespace tvq {
namespace {

constexpr float kTiny = 0x1p-60F;

// A value's q as a float.
inline float Steps(float value, float inverse) {
  const float nearest = value * inverse + kRoundingShift - kRoundingShift;
  return std::min(std::max(nearest, -8.0F), 7.0F);
}

// In eight sums, which are one vector or two.
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
  if (std::abs(largest) < kTiny) {
    std::fill_n(q, values.size(), int8_t{0});
    return ToBFloat16(1);
  }
  float group[kInt4Group] = {};  // zeros have no error
  std::copy(values.begin(), values.end(), group);
  BFloat16 best{};
  float least = std::numeric_limits<float>::infinity();
  for (int quarters = 26; quarters <= 36; ++quarters) {  // of t
    const BFloat16 scale = ToBFloat16(largest / (-0.25F * static_cast<float>(quarters)));
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

double Int4Rounding(std::span<const float> values, int64_t width) {
  double errors = 0, squares = 0;
  for (auto row = values; !row.empty(); row = row.subspan(static_cast<size_t>(width))) {
    for (int64_t first = 0; first < width; first += kInt4Group) {
      const std::span<const float> group = row.subspan(
          static_cast<size_t>(first), static_cast<size_t>(std::min(kInt4Group, width - first)));
      float sums[4] = {};
      for (size_t i = 0; i < group.size(); ++i) sums[i % 4] += group[i] * group[i];
      squares += static_cast<double>(sums[0]) + sums[1] + sums[2] + sums[3];
      const double largest = LargestMagnitude(group);
      const double error = largest < kTiny ? largest : largest / 14.0 * (1 + 0x1p-8);
      errors += static_cast<double>(group.size()) * error * error;
    }
  }
  return squares > 0 ? std::sqrt(errors / squares) : 0;
}

}  // namespace tvq
