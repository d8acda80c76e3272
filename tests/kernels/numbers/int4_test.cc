#include "kernels/numbers/int4.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/numbers/bfloat16.h"

namespace tvq {
namespace {

struct Quantized {
  float scale;
  std::vector<int> q;
};

Quantized Quantize(const std::vector<float>& values) {
  std::vector<int8_t> q(values.size());
  const BFloat16 scale = QuantizeGroup(values, q.data());
  return {ToFloat(scale), {q.begin(), q.end()}};
}

// Values with 8, 7 and 6.5 as the best divisor have no error at all.
TEST(Int4Test, TakesTheScaleWithTheLeastError) {
  const Quantized eight = Quantize({-8, 7, 3, 0, -1});
  EXPECT_EQ(eight.scale, 1);
  EXPECT_EQ(eight.q, (std::vector<int>{-8, 7, 3, 0, -1}));
  const Quantized seven = Quantize({0.5F, 3.5F, -3.5F, 1});
  EXPECT_EQ(seven.scale, -0.5F);
  EXPECT_EQ(seven.q, (std::vector<int>{-1, -7, 7, -2}));
  // Whatever its sign, the first of the largest becomes -t.
  EXPECT_EQ(Quantize({8, -8, 3}).q, Quantize({-8, 8, -3}).q);
}

TEST(Int4Test, CutsOffTheLargestWhereThatPays) {
  // With t = 9 the largest errs by one and the others, which are whole steps, not at all.
  std::vector<float> group;
  for (int64_t i = 0; i < kInt4Group; i += 4) group.insert(group.end(), {3, -5, 7, 5});
  group[4] = -9;
  const Quantized cut = Quantize(group);
  EXPECT_EQ(cut.scale, 1);
  EXPECT_EQ(cut.q[4], -8);
  EXPECT_EQ(cut.q[6], 7);
}

TEST(Int4Test, WhatIsTinyBecomesZeros) {
  const Quantized tiny = Quantize({0x1p-61F, 0, -0x1p-62F});
  EXPECT_EQ(tiny.scale, 1);
  EXPECT_EQ(tiny.q, (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(Quantize({0}).scale, 1);
  EXPECT_NE(Quantize({0x1p-60F}).q[0], 0);
  const Quantized huge = Quantize({kInt4Largest, -kInt4Largest});
  EXPECT_NEAR(huge.q[0] * huge.scale / kInt4Largest, 1, 0.01);
}

// What int4.h promises of a group, and of all of them together, whatever the values' distribution.
TEST(Int4Test, ErrorsStayBelowTheBound) {
  std::mt19937 engine(1);
  for (const double power : {0.3, 1.0, 3.0}) {
    const int64_t width = 3 * kInt4Group + 5, rows = 40;
    std::vector<float> values(static_cast<size_t>(rows * width));
    std::normal_distribution<double> normal;
    for (float& value : values) {
      const double x = normal(engine);
      value = static_cast<float>(std::copysign(std::pow(std::abs(x), power), x));
    }
    double errors = 0, squares = 0;
    RoundingBound sums;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t first = 0; first < width; first += kInt4Group) {
        const auto group =
            std::span(values).subspan(static_cast<size_t>(row * width + first),
                                      static_cast<size_t>(std::min(kInt4Group, width - first)));
        const Quantized made = Quantize({group.begin(), group.end()});
        double error = 0, largest = 0;
        for (size_t i = 0; i < group.size(); ++i) {
          EXPECT_GE(made.q[i], -8);
          EXPECT_LE(made.q[i], 7);
          error += std::pow(static_cast<double>(made.scale) * made.q[i] - group[i], 2);
          squares += std::pow(static_cast<double>(group[i]), 2);
          largest = std::max<double>(largest, std::abs(group[i]));
        }
        EXPECT_LE(std::sqrt(error / static_cast<double>(group.size())),
                  largest / 14 * (1 + 0x1p-8));
        errors += error;
        sums.Add(Int4Rounding(group, static_cast<float>(largest)));
      }
    }
    const double bound = sums.Relative();
    EXPECT_LE(std::sqrt(errors / squares), bound) << power;
    EXPECT_GT(std::sqrt(errors / squares), bound / 8) << power;
  }
  EXPECT_EQ(Int4Rounding(std::vector<float>(30), 0).Relative(), 0);
}

}  // namespace
}  // namespace tvq
