#include "kernels/ops/layer_norm.h"

#include <cmath>

#include "gmock/gmock.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

class LayerNormTest : public testing::TestWithParam<DeviceCase> {
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
    LayerNormArgs args{.x = {in.data(), {rows, width}}, .out = {out.data(), {rows, width}}};
    if (!gain.empty()) args.gain = {g.data(), {width}};
    if (!bias.empty()) args.bias = {b.data(), {width}};
    const absl::Status status = LayerNorm(device, args);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return out.Read();
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Device> reference_ = MakeDevice("reference").value();
};

// The mean is off by gamma_(D+1) of the mean of |x|, which moves every difference by as much, and
// the deviation by less than that. The variance is a sum of squares, off by gamma_(D+2) relative,
// its root by half of that. Eight roundings cover difference, root, quotient, gain, bias and the
// reference's conversion. A row of one value has no deviation but epsilon's, which divides the
// error of the mean: none, the mean is the value.
TEST_P(LayerNormTest, AgreesWithTheReference) {
  for (const int64_t width : {1, 2, 7, 16, 63, 64, 65, 128, 768, 1000}) {
    for (const int64_t rows : {0, 1, 3, 40}) {
      for (const bool affine : {false, true}) {
        for (const float shift : {0.0F, 30.0F}) {
          std::vector<float> x = RandomFloats(rows * width, 1, 3);
          for (float& value : x) value += shift;
          const std::vector<float> gain = RandomFloats(width, 2);
          const std::vector<float> bias = RandomFloats(width, 3);
          const std::vector<float> out =
              affine ? Run(*device_, x, width, gain, bias) : Run(*device_, x, width);
          const std::vector<float> expected =
              affine ? Run(*reference_, x, width, gain, bias) : Run(*reference_, x, width);
          for (int64_t row = 0; row < rows; ++row) {
            double size = 0, mean = 0, squares = 0;
            const float* from = x.data() + row * width;
            for (int64_t i = 0; i < width; ++i) {
              size += std::abs(from[i]) / static_cast<double>(width);
              mean += from[i] / static_cast<double>(width);
            }
            for (int64_t i = 0; i < width; ++i) squares += (from[i] - mean) * (from[i] - mean);
            const double deviation =
                std::sqrt(squares / static_cast<double>(width) + kLayerNormEpsilon);
            for (int64_t i = 0; i < width; ++i) {
              const auto at = static_cast<size_t>(row * width + i);
              const double g = affine ? std::abs(gain[static_cast<size_t>(i)]) : 1;
              const double b = affine ? std::abs(bias[static_cast<size_t>(i)]) : 0;
              const double shifted = width == 1 ? 0 : 2 * Gamma(width + 1) * size / deviation * g;
              ASSERT_NEAR(out[at], expected[at],
                          Gamma(width + 8) * (std::abs(expected[at]) + 2 * b) + shifted)
                  << width << " wide, row " << row << ", element " << i;
            }
          }
        }
      }
    }
  }
}

TEST_P(LayerNormTest, MayWriteOverItsInput) {
  const std::vector<float> x = RandomFloats(5 * 37, 1);
  const DeviceArray<float> memory(*device_, x);
  ASSERT_TRUE(
      LayerNorm(*device_, {.x = {memory.data(), {5, 37}}, .out = {memory.data(), {5, 37}}}).ok());
  EXPECT_EQ(memory.Read(), Run(*device_, x, 37));
}

TEST_P(LayerNormTest, ConstantRowsAreZero) {
  std::vector<float> x(2 * 33, 0);
  std::fill(x.begin() + 33, x.end(), 1024.0F);
  EXPECT_EQ(Run(*device_, x, 33), std::vector<float>(2 * 33, 0));
}

TEST_P(LayerNormTest, ARowsBitsDependOnThatRowAlone) {
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

INSTANTIATE_TEST_SUITE_P(All, LayerNormTest, testing::ValuesIn(AllDevices()), kCaseName);

TEST(LayerNormChecksTest, NameTheArgument) {
  const auto device = MakeDevice("cpu", 1).value();
  std::vector<float> x(12);
  const LayerNormArgs args{
      .x = {x.data(), {3, 4}}, .gain = {x.data(), {3}}, .out = {x.data(), {3, 4}}};
  EXPECT_EQ(LayerNorm(*device, args).ToString(),
            "INVALID_ARGUMENT: LayerNorm: gain is [3], expected [4]");
}

}  // namespace
}  // namespace tvq
