#include "kernels/ops/rms_norm.h"

#include <cmath>

#include "gmock/gmock.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

class RmsNormTest : public testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override {
    TVQ_SKIP_WITHOUT_DEVICE(GetParam());
    device_ = MakeTestDevice(GetParam());
  }

  // x [rows, width]; gain, bias [width] or empty.
  static std::vector<float> Run(Device& device, const std::vector<float>& x, int64_t width,
                                const std::vector<float>& gain = {},
                                const std::vector<float>& bias = {}) {
    const auto rows = static_cast<int64_t>(x.size()) / width;
    const DeviceArray<float> in(device, x), g(device, gain), b(device, bias);
    const DeviceArray<float> out(device, std::vector<float>(x.size(), NAN));
    RmsNormArgs args{.x = {in.data(), {rows, width}}, .out = {out.data(), {rows, width}}};
    if (!gain.empty()) args.gain = {g.data(), {width}};
    if (!bias.empty()) args.bias = {b.data(), {width}};
    const absl::Status status = RmsNorm(device, args);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return out.Read();
  }

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
        const std::vector<float> out =
            affine ? Run(*device_, x, width, gain, bias) : Run(*device_, x, width);
        const std::vector<float> expected =
            affine ? Run(*reference_, x, width, gain, bias) : Run(*reference_, x, width);
        for (size_t i = 0; i < out.size(); ++i) {
          const double b = affine ? std::abs(bias[i % static_cast<size_t>(width)]) : 0;
          ASSERT_NEAR(out[i], expected[i], Gamma(width + 8) * (std::abs(expected[i]) + 2 * b));
        }
      }
    }
  }
}

TEST_P(RmsNormTest, MayWriteOverItsInput) {
  const std::vector<float> x = RandomFloats(5 * 37, 1);
  const DeviceArray<float> memory(*device_, x);
  ASSERT_TRUE(
      RmsNorm(*device_, {.x = {memory.data(), {5, 37}}, .out = {memory.data(), {5, 37}}}).ok());
  EXPECT_EQ(memory.Read(), Run(*device_, x, 37));
}

TEST_P(RmsNormTest, ZeroAndHugeRowsStayFinite) {
  std::vector<float> x(2 * 33, 0);
  std::fill(x.begin() + 33, x.end(), 1e18F);
  const std::vector<float> out = Run(*device_, x, 33);
  EXPECT_EQ(out[0], 0);
  EXPECT_NEAR(out[33], 1, 1e-5);
}

TEST_P(RmsNormTest, ARowsBitsDependOnThatRowAlone) {
  const int64_t width = 515;
  const std::vector<float> x = RandomFloats(64 * width, 1);
  const std::vector<float> all = Run(*device_, x, width);
  for (int64_t row = 0; row < 64; ++row) {
    const auto first = static_cast<ptrdiff_t>(row * width);
    const std::vector<float> alone =
        Run(*device_, {x.begin() + first, x.begin() + first + width}, width);
    ASSERT_TRUE(std::equal(alone.begin(), alone.end(), all.begin() + first)) << row;
  }
}

INSTANTIATE_TEST_SUITE_P(All, RmsNormTest, testing::ValuesIn(AllDevices()), kCaseName);

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
