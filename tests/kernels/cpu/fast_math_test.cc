#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_device.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/cpu/fast_math_test.cc"
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
#include "kernels/cpu/fast_math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

// Handles the first `count` values in full and partial vectors, as kernels do.
void ExpAndSilu(const float* x, size_t count, float* exp, float* silu) {
  const hn::ScalableTag<float> d;
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto v = LoadFirst(d, x + i, count - i);
    StoreFirst(FastExp(d, v), d, exp + i, count - i);
    StoreFirst(FastSilu(d, v), d, silu + i, count - i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {
namespace {

HWY_EXPORT(ExpAndSilu);

struct Result {
  std::vector<float> exp;
  std::vector<float> silu;
};

Result Compute(const std::vector<float>& x) {
  Result r{std::vector<float>(x.size()), std::vector<float>(x.size())};
  HWY_DYNAMIC_DISPATCH(ExpAndSilu)(x.data(), x.size(), r.exp.data(), r.silu.data());
  return r;
}

class FastMathTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { device_ = MakeDevice("cpu", 1, GetParam()).value(); }
  std::unique_ptr<Device> device_;  // chooses the instruction set
};

// The bounds are those of fast_math-inl.h: 2e-7 for exp; silu adds a sum and a quotient of half an
// ulp (6e-8) each.
TEST_P(FastMathTest, IsAccurate) {
  std::vector<float> x;
  for (float v = -87.0F; v <= 88.0F; v += 0.0007F) x.push_back(v);
  for (float v = 1e-30F; v < 1; v *= 3) x.insert(x.end(), {v, -v});
  const Result r = Compute(x);
  for (size_t i = 0; i < x.size(); ++i) {
    const double exp = std::exp(static_cast<double>(x[i]));
    ASSERT_NEAR(r.exp[i] / exp, 1, 2e-7) << x[i];
    const double silu = x[i] / (1 + 1 / exp);
    if (std::abs(silu) > std::numeric_limits<float>::min()) {
      ASSERT_NEAR(r.silu[i] / silu, 1, 4e-7) << x[i];
    }
  }
}

TEST_P(FastMathTest, ExtremesAreDefined) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const Result r = Compute({-kInf, -1e30F, -200, 0, 89, 200, 1e30F, kInf, std::nanf("")});
  EXPECT_EQ(r.exp[0], 0);
  EXPECT_EQ(r.exp[1], 0);
  EXPECT_EQ(r.exp[2], 0);
  EXPECT_EQ(r.exp[3], 1);
  for (size_t i = 4; i < 8; ++i) EXPECT_EQ(r.exp[i], kInf) << i;
  EXPECT_TRUE(std::isnan(r.exp[8]));
  EXPECT_EQ(r.silu[1], 0);
  EXPECT_EQ(r.silu[2], 0);
  EXPECT_EQ(r.silu[3], 0);
  EXPECT_EQ(r.silu[5], 200);
  EXPECT_EQ(r.silu[6], 1e30F);
  EXPECT_TRUE(std::isnan(r.silu[8]));
}

TEST_P(FastMathTest, BitsDoNotDependOnTheLane) {
  for (size_t place = 0; place < 37; ++place) {
    std::vector<float> x(37, -3.0F);
    x[place] = 1.2345F;
    const Result r = Compute(x);
    const Result alone = Compute({1.2345F});
    EXPECT_EQ(r.exp[place], alone.exp[0]) << place;
    EXPECT_EQ(r.silu[place], alone.silu[0]) << place;
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, FastMathTest, testing::ValuesIn(AvailableIsas()),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace tvq
#endif  // HWY_ONCE
