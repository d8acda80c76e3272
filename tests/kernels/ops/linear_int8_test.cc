// Linears whose weights are int8: how they are quantized, and what integer sums promise.

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/linear/fixed_point.h"
#include "kernels/ops/linear.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

// An int8 weight by its own numbers: with x = 1 a column of q comes out, times its scale. Values
// and signs at the ends, a row of zeros, a row so small that it becomes zeros.
class LinearInt8Test : public testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override {
    TVQ_SKIP_WITHOUT_DEVICE(GetParam());
    device_ = MakeTestDevice(GetParam());
  }

  // x [1, in] W^T.
  std::vector<float> Multiply(const HostMatrix& matrix, DType dtype, const std::vector<float>& x) {
    const LinearWeight weight = PackLinear(*device_, {&matrix, 1}, dtype).value();
    const DeviceArray<float> in(*device_, x);
    const DeviceArray<float> out(*device_, std::vector<float>(static_cast<size_t>(matrix.out)));
    EXPECT_TRUE(Linear(*device_, {.x = {in.data(), {1, matrix.in}},
                                  .weight = &weight,
                                  .y = {out.data(), {1, matrix.out}}})
                    .ok());
    return out.Read();
  }

  std::unique_ptr<Device> device_;
};

// The CPU alone multiplies integers.
class LinearFixedPointTest : public LinearInt8Test {};

TEST_P(LinearInt8Test, QuantizesRowByRow) {
  const std::vector<float> w = {127, -127, 63.5F, 64.5F, 0.4F,  0,      0, 0, 0, 0,
                                -2,  1,    0.01F, 2,     -1.5F, 1e-37F, 0, 0, 0, -1e-37F};
  const std::vector<float> expected[] = {
      {127, -127, 64, 64, 0}, {0, 0, 0, 0, 0}, {-127, 64, 1, 127, -95}, {0, 0, 0, 0, 0}};
  const float scales[] = {1, 1, 2.0F / 127, 1};
  const HostMatrix matrix{w.data(), 4, 5};
  for (size_t i = 0; i < 5; ++i) {
    std::vector<float> x(5);
    x[i] = 1;
    const std::vector<float> y = Multiply(matrix, DType::kInt8, x);
    for (size_t o = 0; o < 4; ++o) EXPECT_EQ(y[o], expected[o][i] * scales[o]) << o << ", " << i;
  }
}

TEST_P(LinearInt8Test, NamesARowThatIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const int64_t out = 3, in = 1500;
  const std::vector<float> finite(static_cast<size_t>(out * in), 1.0F);
  for (const float value : {NAN, -NAN, kInfinity, -kInfinity}) {
    for (const size_t at : {0, 1499}) {
      std::vector<float> w = finite;
      w[in + at] = value;
      const HostMatrix parts[] = {{finite.data(), out, in}, {w.data(), out, in}};
      const absl::Status status = PackLinear(*device_, parts, DType::kInt8).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << value << " at " << at;
      EXPECT_EQ(status.message(),
                "PackLinear: row 1 of parts[1] holds an infinite value or NaN, expected finite "
                "ones to make int8 of");
    }
  }
}

TEST_P(LinearInt8Test, TakesInt8AsItIs) {
  const int64_t in = 70, out = 33;
  std::vector<int8_t> q;
  std::vector<float> scales;
  for (const int32_t index : RandomIndices(out * in, 255, 1)) {
    q.push_back(static_cast<int8_t>(index - 127));
  }
  for (const float scale : RandomFloats(out, 2)) scales.push_back(std::abs(scale));
  const HostMatrix matrix{q.data(), out, in, DType::kInt8, scales.data()};
  std::vector<float> dequantized;
  dequantized.reserve(q.size());
  for (int64_t i = 0; i < out * in; ++i) {
    dequantized.push_back(scales[static_cast<size_t>(i / in)] *
                          static_cast<float>(q[static_cast<size_t>(i)]));
  }
  const std::vector<float> x = RandomFloats(in, 3);
  const std::vector<float> rounded = RoundedRow({GetParam(), DType::kInt8}, x);
  const std::vector<float> y = Multiply(matrix, DType::kInt8, x);
  for (int64_t o = 0; o < out; ++o) {
    double sum = 0, terms = 0;
    for (int64_t i = 0; i < in; ++i) {
      const double product =
          static_cast<double>(rounded[static_cast<size_t>(i)]) * q[static_cast<size_t>(o * in + i)];
      sum += product;
      terms += std::abs(product);
    }
    const double scale = scales[static_cast<size_t>(o)];
    const int64_t roundings = SumRoundings({GetParam(), DType::kInt8}, in) + 2;
    EXPECT_NEAR(y[static_cast<size_t>(o)], sum * scale, Gamma(roundings) * terms * scale) << o;
  }
  // Other dtypes see scale * q.
  const HostMatrix floats{dequantized.data(), out, in};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    EXPECT_EQ(Multiply(matrix, dtype, x), Multiply(floats, dtype, x));
  }
}

// As large as weights, x and `in` can be, with signs that add up and that cancel.
TEST_P(LinearFixedPointTest, TheLargestSumsAreRight) {
  const int64_t in = kMaxInt8Width, out = 3;
  std::vector<int8_t> q(static_cast<size_t>(out * in), 127);
  for (int64_t i = 0; i < in; ++i) {
    q[static_cast<size_t>(in + i)] = -127;
    q[static_cast<size_t>(2 * in + i)] = i % 2 == 0 ? 127 : -127;
  }
  const std::vector<float> scales(3, 1.0F);
  const HostMatrix matrix{q.data(), out, in, DType::kInt8, scales.data()};
  // The most that a step of 1 allows, and lower bytes at both ends.
  for (const float value : {32637.0F, 127 * 256.0F - 128, 126 * 256.0F + 127}) {
    for (const float sign : {1.0F, -1.0F}) {
      const std::vector<float> x(static_cast<size_t>(in), sign * value);
      const double sum = static_cast<double>(in) * 127 * x[0];
      const std::vector<float> y = Multiply(matrix, DType::kInt8, x);
      EXPECT_NEAR(y[0], sum, Gamma(2) * std::abs(sum));
      EXPECT_NEAR(y[1], -sum, Gamma(2) * std::abs(sum));
      EXPECT_EQ(y[2], 0);
    }
  }
}

// The vector conversion of x agrees with the scalar one bit for bit: an identity matrix shows it,
// each number by a row of its own weight alone.
TEST_P(LinearFixedPointTest, RoundsToFixedPoint) {
  constexpr int64_t kWidth = 101;
  std::vector<int8_t> q(kWidth * kWidth);
  for (size_t i = 0; i < kWidth; ++i) q[i * kWidth + i] = 1;
  const std::vector<float> scales(kWidth, 1.0F);
  const HostMatrix matrix{q.data(), kWidth, kWidth, DType::kInt8, scales.data()};
  const LinearWeight weight = PackLinear(*device_, {&matrix, 1}, DType::kInt8).value();
  constexpr float kMost = std::numeric_limits<float>::max();
  // The largest below and above which the step doubles, 1.004 times 2^n and more; the smallest
  // step.
  for (const float largest :
       {1.0F, 1.99203F, 1.99204F, 3.0F, 0x1p-109F, 0x1.1p-110F, 1e-36F, 0x1p-149F, 0.0F, kMost}) {
    std::vector<float> x = RandomFloats(kWidth, 1);
    for (size_t i = 0; i < kWidth; ++i) x[i] = std::clamp(x[i] / 4, -1.0F, 1.0F) * largest;
    x[7] = largest;
    // In the middle of two, and next to it.
    const float step = FixedPointStep(x);
    for (size_t i = 0; i < 4; ++i) {
      const float middle = (static_cast<float>(i) + 0.5F) * step;
      if (middle > largest) continue;
      x[10 + 3 * i] = middle;
      x[11 + 3 * i] = -middle;
      x[12 + 3 * i] = std::nextafter(middle, 0.0F);
    }
    const DeviceArray<float> in(*device_, x), out(*device_, std::vector<float>(kWidth));
    ASSERT_TRUE(
        Linear(*device_,
               {.x = {in.data(), {1, kWidth}}, .weight = &weight, .y = {out.data(), {1, kWidth}}})
            .ok());
    EXPECT_EQ(out.Read(), RoundedRow({GetParam(), DType::kInt8}, x)) << largest;
  }
}

INSTANTIATE_TEST_SUITE_P(All, LinearInt8Test, testing::ValuesIn(LinearDevices()), kCaseName);

std::vector<DeviceCase> DevicesOfIntegers() {
  std::vector<DeviceCase> devices = LinearDevices();
  std::erase_if(devices, [](const DeviceCase& device) { return device.name != "cpu"; });
  return devices;
}
INSTANTIATE_TEST_SUITE_P(Cpu, LinearFixedPointTest, testing::ValuesIn(DevicesOfIntegers()),
                         kCaseName);

// What linear.h says of int8 weights on the CPU: sums of integers, whatever adds them up.
TEST(LinearInt8BitsTest, AreThoseOfEveryInstructionSet) {
  std::vector<float> first;
  std::vector<DeviceCase> devices = CpuDevices();
  devices.push_back(kAmxStandIn);
  for (const DeviceCase& c : devices) {
    const std::unique_ptr<Device> device = MakeTestDevice(c);
    std::vector<float> all;
    for (const int64_t in : {1, 70, 515, 3001}) {
      const int64_t rows = 21, out = 45;
      const std::vector<float> w = RandomFloats(out * in, 1);
      std::vector<float> x = RandomFloats(rows * in, 2);
      x[0] *= 1e3F;
      const HostMatrix matrix{w.data(), out, in};
      const LinearWeight weight = PackLinear(*device, {&matrix, 1}, DType::kInt8).value();
      const DeviceArray<float> x_in(*device, x), bias(*device, RandomFloats(out, 3)),
          y(*device, RandomFloats(rows * out, 4));
      ASSERT_TRUE(Linear(*device, {.x = {x_in.data(), {rows, in}},
                                   .weight = &weight,
                                   .bias = {bias.data(), {out}},
                                   .scale = 0.3F,
                                   .accumulate = true,
                                   .y = {y.data(), {rows, out}}})
                      .ok());
      const std::vector<float> read = y.Read();
      all.insert(all.end(), read.begin(), read.end());
    }
    if (first.empty()) first = all;
    EXPECT_EQ(all, first) << c.variant;
  }
}

}  // namespace
}  // namespace tvq
