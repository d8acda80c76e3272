#include "kernels/ops/norm_rows.h"

#include <cmath>

#include "gmock/gmock.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

struct NormCase {
  DeviceCase device;
  Norm norm;
};

std::string NameOf(const NormCase& c) {
  return NameOf(c.device) + (c.norm == Norm::kRms ? "_rms" : "_layer");
}

void PrintTo(const NormCase& c, std::ostream* out) { *out << NameOf(c); }

std::vector<NormCase> NormCases() {
  std::vector<NormCase> cases;
  for (const DeviceCase& device : AllDevices()) {
    for (const Norm norm : {Norm::kRms, Norm::kLayer}) cases.push_back({device, norm});
  }
  return cases;
}

class NormRowsTest : public testing::TestWithParam<NormCase> {
 protected:
  void SetUp() override {
    TVQ_SKIP_WITHOUT_DEVICE(GetParam().device);
    device_ = MakeTestDevice(GetParam().device);
  }

  static bool layer() { return GetParam().norm == Norm::kLayer; }

  // x [rows, width]; gain, bias [width] or empty.
  static std::vector<float> Run(Device& device, const std::vector<float>& x, int64_t width,
                                const std::vector<float>& gain = {},
                                const std::vector<float>& bias = {}) {
    const auto rows = static_cast<int64_t>(x.size()) / width;
    const DeviceArray<float> in(device, x), g(device, gain), b(device, bias);
    const DeviceArray<float> out(device, std::vector<float>(x.size(), NAN));
    NormRowsArgs args{.norm = GetParam().norm,
                      .x = {in.data(), {rows, width}},
                      .out = {out.data(), {rows, width}}};
    if (!gain.empty()) args.gain = {g.data(), {width}};
    if (!bias.empty()) args.bias = {b.data(), {width}};
    const absl::Status status = NormRows(device, args);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return out.Read();
  }

  // How far the error of LayerNorm's mean moves the elements of a row with a gain of 1. The mean is
  // off by gamma_(D+1) of the mean of |x|, which moves every difference by as much, and the
  // deviation by less than that. A row of one value has no deviation but epsilon's, which divides
  // the error of the mean: none, the mean is the value.
  static double Shift(std::span<const float> row) {
    const auto width = static_cast<int64_t>(row.size());
    if (!layer() || width == 1) return 0;
    double size = 0, mean = 0, squares = 0;
    for (const float x : row) {
      size += std::abs(x) / static_cast<double>(width);
      mean += x / static_cast<double>(width);
    }
    for (const float x : row) squares += (x - mean) * (x - mean);
    const double deviation = std::sqrt(squares / static_cast<double>(width) + kLayerNormEpsilon);
    return 2 * Gamma(width + 1) * size / deviation;
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Device> reference_ = MakeDevice("reference").value();
};

// All squares are positive, so their mean is off by gamma_D relative, of LayerNorm's differences by
// gamma_(D+2), and the root by half of that; eight roundings cover the difference, the root, the
// quotient, gain, bias and the reference's conversion.
TEST_P(NormRowsTest, AgreesWithTheReference) {
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
            const double shifted = Shift(
                std::span(x).subspan(static_cast<size_t>(row * width), static_cast<size_t>(width)));
            for (int64_t i = 0; i < width; ++i) {
              const auto at = static_cast<size_t>(row * width + i);
              const double g = affine ? std::abs(gain[static_cast<size_t>(i)]) : 1;
              const double b = affine ? std::abs(bias[static_cast<size_t>(i)]) : 0;
              ASSERT_NEAR(out[at], expected[at],
                          Gamma(width + 8) * (std::abs(expected[at]) + 2 * b) + shifted * g)
                  << width << " wide, row " << row << ", element " << i;
            }
          }
        }
      }
    }
  }
}

TEST_P(NormRowsTest, MayWriteOverItsInput) {
  const std::vector<float> x = RandomFloats(5 * 37, 1);
  const DeviceArray<float> memory(*device_, x);
  ASSERT_TRUE(NormRows(*device_, {.norm = GetParam().norm,
                                  .x = {memory.data(), {5, 37}},
                                  .out = {memory.data(), {5, 37}}})
                  .ok());
  EXPECT_EQ(memory.Read(), Run(*device_, x, 37));
}

// So small a row shows what is added to its squares.
TEST_P(NormRowsTest, TakesTheEpsilonThatIsGiven) {
  const std::vector<float> x = {2e-3F, -2e-3F, 2e-3F, -2e-3F};
  const DeviceArray<float> in(*device_, x), out(*device_, std::vector<float>(4, NAN));
  ASSERT_TRUE(NormRows(*device_, {.norm = GetParam().norm,
                                  .x = {in.data(), {1, 4}},
                                  .out = {out.data(), {1, 4}},
                                  .epsilon = 1.2e-5F})
                  .ok());
  EXPECT_NEAR(out.Read()[0], 0.5F, 1e-5);
}

TEST_P(NormRowsTest, ConstantRowsAreZeroOrOne) {
  std::vector<float> x(2 * 33, 0);
  std::fill(x.begin() + 33, x.end(), layer() ? 1024.0F : 1e18F);
  const std::vector<float> out = Run(*device_, x, 33);
  if (layer()) {
    EXPECT_EQ(out, std::vector<float>(2 * 33, 0));
  } else {
    EXPECT_EQ(out[0], 0);
    EXPECT_NEAR(out[33], 1, 1e-5);
  }
}

TEST_P(NormRowsTest, ARowsBitsDependOnThatRowAlone) {
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

INSTANTIATE_TEST_SUITE_P(All, NormRowsTest, testing::ValuesIn(NormCases()), kCaseName);

TEST(NormRowsChecksTest, NameTheArgument) {
  const auto device = MakeDevice("cpu", 1).value();
  std::vector<float> x(12);
  const NormRowsArgs args{
      .x = {x.data(), {3, 4}}, .gain = {x.data(), {3}}, .out = {x.data(), {3, 4}}};
  EXPECT_EQ(NormRows(*device, args).ToString(),
            "INVALID_ARGUMENT: NormRows: gain is [3], expected [4]");
}

}  // namespace
}  // namespace tvq
