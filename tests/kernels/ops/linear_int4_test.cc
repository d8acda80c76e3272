// Linears whose weights are int4, beyond what linear_test.cc compares with the reference: how they
// are quantized, and what integer sums promise.

#include <cmath>

#include "kernels/cpu/linear/fixed_point.h"
#include "kernels/cpu/linear/packed_weight.h"
#include "kernels/ops/linear.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

// x [rows, in] W^T.
std::vector<float> Multiply(Device& device, const HostMatrix& matrix, const std::vector<float>& x) {
  const LinearWeight weight = PackLinear(device, {&matrix, 1}, DType::kInt4).value();
  const int64_t rows = static_cast<int64_t>(x.size()) / matrix.in;
  const DeviceArray<float> in(device, x);
  const DeviceArray<float> out(device, std::vector<float>(static_cast<size_t>(rows * matrix.out)));
  EXPECT_TRUE(Linear(device, {.x = {in.data(), {rows, matrix.in}},
                              .weight = &weight,
                              .y = {out.data(), {rows, matrix.out}}})
                  .ok());
  return out.Read();
}

class LinearInt4Test : public testing::TestWithParam<DeviceCase> {
 protected:
  std::unique_ptr<Device> device_ = MakeTestDevice(GetParam());
};

// By an identity x, every weight by itself: each in its place, in groups, panels and pairs of them.
TEST_P(LinearInt4Test, HoldsEveryValueInItsPlace) {
  const int64_t in = 2 * kInt4Group + 11, out = 70;
  const std::vector<float> w = RandomFloats(out * in, 1);
  std::vector<float> x(static_cast<size_t>(in * in));
  for (int64_t i = 0; i < in; ++i) x[static_cast<size_t>(i * in + i)] = 1;
  const std::vector<float> y = Multiply(*device_, {w.data(), out, in}, x);
  const std::vector<float> expected = WeightsAs(DType::kInt4, w, in);
  for (int64_t i = 0; i < in; ++i) {
    for (int64_t o = 0; o < out; ++o) {
      ASSERT_EQ(y[static_cast<size_t>(i * out + o)], expected[static_cast<size_t>(o * in + i)])
          << o << ", " << i;
    }
  }
}

// Where packing is by vectors, it finds the scales that int4.h fixes: of groups of all sizes, with
// equal magnitudes of both signs, with nothing in them, too small for anything, as large as they
// can be, and with several scales of the same error.
TEST_P(LinearInt4Test, GroupsHaveTheScalesOfTheirDefinition) {
  const int64_t in = 3 * kInt4Group + 7, out = 64;
  std::vector<float> w = RandomFloats(out * in, 1);
  for (int64_t o = 0; o < out; ++o) {
    float* row = w.data() + o * in;
    for (int64_t i = 0; i < in; ++i) {
      if (o % 8 == 1) row[i] = std::copysign(1.5F, row[i]);
      if (o % 8 == 2) row[i] = 0;
      if (o % 8 == 3) row[i] *= 0x1p-61F;
      if (o % 8 == 4) row[i] *= 0x1p57F;
      if (o % 8 == 5) row[i] = std::nearbyint(row[i] * 4);
      if (o % 8 == 6) row[i] *= std::ldexp(1.0F, static_cast<int>(i % 40) - 20);
      if (o % 8 == 7) row[i] = i % kInt4Group == 31 ? -2.0F : 0.1F * row[i];
    }
  }
  std::vector<float> x(static_cast<size_t>(in * in));
  for (int64_t i = 0; i < in; ++i) x[static_cast<size_t>(i * in + i)] = 1;
  const std::vector<float> y = Multiply(*device_, {w.data(), out, in}, x);
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t first = 0; first < in; first += kInt4Group) {
      const auto count = static_cast<size_t>(std::min(kInt4Group, in - first));
      int8_t q[kInt4Group];
      const float scale = ToFloat(QuantizeGroup({w.data() + o * in + first, count}, q));
      for (size_t i = 0; i < count; ++i) {
        const float found = y[(static_cast<size_t>(first) + i) * out + static_cast<size_t>(o)];
        ASSERT_EQ(found, scale * static_cast<float>(q[i])) << o << ", " << first << " + " << i;
      }
    }
  }
}

TEST_P(LinearInt4Test, TakesInt8AsScaleTimesValue) {
  const int64_t in = 70, out = 33;
  std::vector<int8_t> q;
  std::vector<float> scales, dequantized;
  for (const int32_t index : RandomIndices(out * in, 255, 1)) {
    q.push_back(static_cast<int8_t>(index - 127));
  }
  for (const float scale : RandomFloats(out, 2)) scales.push_back(std::abs(scale));
  for (size_t i = 0; i < q.size(); ++i) {
    dequantized.push_back(scales[i / static_cast<size_t>(in)] * static_cast<float>(q[i]));
  }
  const std::vector<float> x = RandomFloats(in, 3);
  EXPECT_EQ(Multiply(*device_, {q.data(), out, in, DType::kInt8, scales.data()}, x),
            Multiply(*device_, {dequantized.data(), out, in}, x));
}

// As large as weights, x and `in` can be, with signs that add up and that cancel. All groups are
// alike: their sum is exact but for adding it up.
TEST_P(LinearInt4Test, TheLargestSumsAreRight) {
  const int64_t in = kMaxInt8Width, out = 3;
  std::vector<float> w(static_cast<size_t>(out * in), -kInt4Largest);
  for (int64_t i = 0; i < in; ++i) {
    w[static_cast<size_t>(in + i)] = kInt4Largest;
    w[static_cast<size_t>(2 * in + i)] = i % 2 == 0 ? 1 : -1;
  }
  const std::vector<float> used = WeightsAs(DType::kInt4, w, in);
  // The most that a step of 1 allows, and lower bytes at both ends.
  for (const float value : {32637.0F, 127 * 256.0F - 128, 126 * 256.0F + 127}) {
    for (const float sign : {1.0F, -1.0F}) {
      const std::vector<float> x(static_cast<size_t>(in), sign * value);
      const std::vector<float> y = Multiply(*device_, {w.data(), out, in}, x);
      for (size_t o = 0; o < 3; ++o) {
        double sum = 0, terms = 0;
        for (size_t i = 0; i < static_cast<size_t>(in); ++i) {
          const double product = static_cast<double>(used[o * static_cast<size_t>(in) + i]) * x[i];
          sum += product;
          terms += std::abs(product);
        }
        const int64_t roundings = SumRoundings({GetParam(), DType::kInt4}, in);
        EXPECT_NEAR(y[o], sum, Gamma(roundings) * terms) << o;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LinearInt4Test, testing::ValuesIn(CpuDevices()), kCaseName);

// What linear.h says of int4 weights on the CPU: sums of integers in groups, and these in their
// order, whatever adds them up.
TEST(LinearInt4BitsTest, AreThoseOfEveryInstructionSet) {
  std::vector<float> first;
  for (const std::string& isa : AvailableIsas()) {
    const std::unique_ptr<Device> device = MakeTestDevice("cpu", isa);
    std::vector<float> all;
    for (const int64_t in : {1, 32, 70, 515, 3001}) {
      const int64_t rows = 9, out = 45;
      const std::vector<float> w = RandomFloats(out * in, 1);
      std::vector<float> x = RandomFloats(rows * in, 2);
      x[0] *= 1e3F;
      const std::vector<float> y = Multiply(*device, {w.data(), out, in}, x);
      all.insert(all.end(), y.begin(), y.end());
    }
    if (first.empty()) first = all;
    EXPECT_EQ(all, first) << isa;
  }
}

TEST(LinearInt4BytesTest, AreNineSixteenthsOfAByteAValue) {
  const std::unique_ptr<Device> device = MakeTestDevice("cpu");
  const std::vector<float> w(64 * 96, 1.0F);
  const HostMatrix matrix{w.data(), 64, 96};
  EXPECT_EQ(PackLinear(*device, {&matrix, 1}, DType::kInt4)->bytes(), 64 * 96 * 9 / 16);
  EXPECT_EQ(PairBytes(33, DType::kInt4), 2 * 9 * kLineBytes);
}

TEST(LinearInt4CudaTest, SaysThatItIsTheCpus) {
  const std::unique_ptr<Device> device = MakeTestDevice("cuda_stand_in", "forwards");
  const std::vector<float> w(4);
  const HostMatrix matrix{w.data(), 2, 2};
  const absl::Status status = PackLinear(*device, {&matrix, 1}, DType::kInt4).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(),
            "PackLinear: weights are int4, which the CPU alone multiplies; a GPU takes float32, "
            "bfloat16 and int8");
}

}  // namespace
}  // namespace tvq
