#include "kernels/ops/rms_norm.h"

#include <cmath>

#include "gmock/gmock.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

class RmsNormTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { device_ = MakeDevice("cpu", 2, GetParam()).value(); }
  std::unique_ptr<Device> device_;
  std::unique_ptr<Device> reference_ = MakeDevice("reference").value();
};

// All squares are positive, so the mean is off by gamma_D relative and the root by half of that;
// eight roundings cover the root, the quotient, gain, bias and the reference's conversion.
TEST_P(RmsNormTest, AgreesWithTheReference) {
  for (const int64_t width : {1, 2, 7, 16, 63, 64, 65, 128, 768, 1000}) {
    for (const int64_t rows : {0, 1, 3, 40}) {
      for (const bool affine : {false, true}) {
        const std::vector<float> x = RandomFloats(rows * width, 1, 3);
        const std::vector<float> gain = RandomFloats(width, 2);
        const std::vector<float> bias = RandomFloats(width, 3);
        std::vector<float> out(x.size());
        std::vector<float> expected(x.size());
        RmsNormArgs args{.x = {x.data(), {rows, width}}, .out = {out.data(), {rows, width}}};
        if (affine) {
          args.gain = {gain.data(), {width}};
          args.bias = {bias.data(), {width}};
        }
        ASSERT_TRUE(RmsNorm(*device_, args).ok());
        args.out.data = expected.data();
        ASSERT_TRUE(RmsNorm(*reference_, args).ok());
        for (size_t i = 0; i < out.size(); ++i) {
          const double b = affine ? std::abs(bias[i % static_cast<size_t>(width)]) : 0;
          ASSERT_NEAR(out[i], expected[i], Gamma(width + 8) * (std::abs(expected[i]) + 2 * b));
        }
      }
    }
  }
}

TEST_P(RmsNormTest, MayWriteOverItsInput) {
  std::vector<float> x = RandomFloats(5 * 37, 1);
  std::vector<float> out(x.size());
  ASSERT_TRUE(RmsNorm(*device_, {.x = {x.data(), {5, 37}}, .out = {out.data(), {5, 37}}}).ok());
  ASSERT_TRUE(RmsNorm(*device_, {.x = {x.data(), {5, 37}}, .out = {x.data(), {5, 37}}}).ok());
  EXPECT_EQ(x, out);
}

TEST_P(RmsNormTest, ZeroAndHugeRowsStayFinite) {
  std::vector<float> x(2 * 33, 0);
  std::fill(x.begin() + 33, x.end(), 1e18F);
  ASSERT_TRUE(RmsNorm(*device_, {.x = {x.data(), {2, 33}}, .out = {x.data(), {2, 33}}}).ok());
  EXPECT_EQ(x[0], 0);
  EXPECT_NEAR(x[33], 1, 1e-5);
}

TEST_P(RmsNormTest, ARowsBitsDependOnThatRowAlone) {
  const int64_t width = 515;
  const std::vector<float> x = RandomFloats(64 * width, 1);
  std::vector<float> all(x.size());
  std::vector<float> alone(x.size());
  ASSERT_TRUE(
      RmsNorm(*device_, {.x = {x.data(), {64, width}}, .out = {all.data(), {64, width}}}).ok());
  for (int64_t row = 0; row < 64; ++row) {
    ASSERT_TRUE(RmsNorm(*device_, {.x = {x.data() + row * width, {1, width}},
                                   .out = {alone.data() + row * width, {1, width}}})
                    .ok());
  }
  EXPECT_EQ(all, alone);
}

INSTANTIATE_TEST_SUITE_P(Isas, RmsNormTest, testing::ValuesIn(AvailableIsas()), IsaName);

TEST(RmsNormChecksTest, NameTheArgument) {
  const auto device = MakeDevice("cpu", 1).value();
  std::vector<float> x(12);
  const absl::Status status = RmsNorm(
      *device, {.x = {x.data(), {3, 4}}, .gain = {x.data(), {3}}, .out = {x.data(), {3, 4}}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()), "RmsNorm: gain is [3], expected [4]");
}

}  // namespace
}  // namespace tvq
