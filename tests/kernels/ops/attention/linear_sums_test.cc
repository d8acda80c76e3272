// Sums must last: up to 1e8 positions are added to A and b, and their means still hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <vector>

#include "tests/kernels/ops/attention/linear_state.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

constexpr LinearShape kShape{1, 2, 8};

// Additions to one element wait for each other, which takes a GPU far longer: fewer there, but more
// than the 16,777,216 at which a plain float32 sum of ones would stop. Its kernels on the CPU only
// show the way.
struct SumsCase {
  DeviceCase device;
  int64_t constant, random;  // positions of each test, multiples of `batch`
  int64_t batch;             // of a call
};

void PrintTo(const SumsCase& c, std::ostream* out) { *out << NameOf(c.device); }

// The bound of the contract is 1e-4 of the mean term. The pair of float32 keeps about 48 bits, so
// that 1e8 roundings in one direction lose at most 1e8 * 2^-47 = 7e-7.
constexpr double kLost = 7e-7;

class LinearSumsTest : public testing::TestWithParam<SumsCase> {
 protected:
  void SetUp() override { TVQ_SKIP_WITHOUT_DEVICE(GetParam().device); }

  size_t batch() const { return static_cast<size_t>(GetParam().batch); }
  // Tiny blocks: threads would only wait for one another.
  std::unique_ptr<Device> OneThread() const { return MakeTestDevice(GetParam().device, 1); }

  // Positions up to `end` whose keys and values repeat `k` [batch, K] and `v` [batch, V]. Returns
  // the last batch's outputs.
  std::vector<float> Feed(Device& device, const std::vector<float>& k, const std::vector<float>& v,
                          int64_t end, OwnedLinearState& state) const {
    const int64_t rows = GetParam().batch;
    const DeviceArray<float> keys(device, k), values(device, v);
    const DeviceArray<float> out(device, std::vector<float>(v.size()));
    for (int64_t position = 0; position < end; position += rows) {
      const absl::Status status =
          LinearPrefillAttention(device, {kShape,
                                          state.View(),
                                          position,
                                          {keys.data(), {rows, 1, kShape.features}},
                                          {keys.data(), {rows, 1, kShape.features}},
                                          {values.data(), {rows, 1, kShape.value}},
                                          {out.data(), {rows, 1, kShape.value}}});
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
    return out.Read();
  }
};

TEST_P(LinearSumsTest, ConstantValuesAddUp) {
  const int64_t positions = GetParam().constant;
  const auto device = OneThread();
  OwnedLinearState state(*device, kShape);
  std::vector<float> k(batch() * 2), v(batch() * 8);
  constexpr float kValues[] = {0.1F, 1.0F / 3, 1.0F, -0.1F, 1e-20F, 3e5F, 0.7F, -1e-3F};
  for (size_t i = 0; i < v.size(); ++i) v[i] = kValues[i % 8];
  for (size_t i = 0; i < k.size(); ++i) k[i] = i % 2 == 0 ? 1.1F : 0.49658530F;
  const std::vector<float> out = Feed(*device, k, v, positions, state);
  const auto count = static_cast<double>(positions);
  // A feature's product with a value is rounded.
  for (size_t row = 0; row < 2; ++row) {
    const double feature = k[row];
    EXPECT_NEAR(state.Keys()[row] / count, feature, kLost * feature);
    for (size_t c = 0; c < 8; ++c) {
      const double mean = feature * kValues[c];
      EXPECT_NEAR(state.KeyValues()[row * 8 + c] / count, mean,
                  (kLost + kRounding) * std::abs(mean));
    }
  }
  // What attention reads: an average of equal values is that value. The sums' own roundings, those
  // of a short chain, and a quotient.
  for (size_t c = 0; c < 8; ++c) {
    EXPECT_NEAR(out[out.size() - 8 + c], kValues[c],
                (2 * kLost + 100 * kRounding) * std::abs(kValues[c]));
  }
}

TEST_P(LinearSumsTest, RandomValuesAddUp) {
  const int64_t positions = GetParam().random;
  const auto device = OneThread();
  OwnedLinearState state(*device, kShape);
  const std::vector<float> k = RandomFeatures(GetParam().batch * 2, 1);
  // Means away from zero: an error is stated relative to the mean.
  std::vector<float> v = RandomFloats(GetParam().batch * 8, 2);
  for (float& value : v) value += 3;
  Feed(*device, k, v, positions, state);
  const auto count = static_cast<double>(positions);
  for (size_t row = 0; row < 2; ++row) {
    for (size_t c = 0; c < 8; ++c) {
      double mean = 0, size = 0;
      for (size_t t = 0; t < batch(); ++t) {
        const double term =
            double{k[t * 2 + row]} * v[t * 8 + c] / static_cast<double>(GetParam().batch);
        mean += term;
        size += std::abs(term);
      }
      EXPECT_NEAR(state.KeyValues()[row * 8 + c] / count, mean, (kLost + kRounding) * size);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, LinearSumsTest,
                         testing::Values(SumsCase{{"cpu", ""}, 100'000'000, 10'000'000, 200'000},
                                         SumsCase{
                                             {"cuda_stand_in", "shuffled"}, 2'000, 2'000, 1'000},
                                         SumsCase{{"cuda", ""}, 20'000'000, 10'000'000, 200'000}),
                         [](const auto& info) { return NameOf(info.param.device); });

}  // namespace
}  // namespace tvq
