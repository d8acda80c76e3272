// Sums must last: up to 1e8 positions are added to A and b, and their means still hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/kernels/ops/linear_state.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

constexpr int64_t kBatch = 200'000;
constexpr LinearShape kShape{1, 2, 8};

// The bound of the contract is 1e-4 of the mean term. The pair of float32 keeps about 48 bits, so
// that 1e8 roundings in one direction lose at most 1e8 * 2^-47 = 7e-7.
constexpr double kLost = 7e-7;

// Tiny blocks: threads would only wait for one another.
std::unique_ptr<Device> OneThread() { return MakeTestDevice("cpu", "", 1); }

// Positions up to `end` whose keys and values repeat `k` [kBatch, K] and `v` [kBatch, V]. Returns
// the last batch's outputs.
std::vector<float> Feed(Device& device, const std::vector<float>& k, const std::vector<float>& v,
                        int64_t end, OwnedLinearState& state) {
  std::vector<float> out(static_cast<size_t>(kBatch * kShape.value));
  for (int64_t position = 0; position < end; position += kBatch) {
    const absl::Status status =
        LinearPrefillAttention(device, {kShape,
                                        state.View(),
                                        position,
                                        {k.data(), {kBatch, 1, kShape.features}},
                                        {k.data(), {kBatch, 1, kShape.features}},
                                        {v.data(), {kBatch, 1, kShape.value}},
                                        {out.data(), {kBatch, 1, kShape.value}}});
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  return out;
}

TEST(LinearSumsTest, ConstantValuesAddUp) {
  constexpr int64_t kPositions = 100'000'000;
  const auto device = OneThread();
  OwnedLinearState state(*device, kShape);
  std::vector<float> k(kBatch * 2), v(kBatch * 8);
  constexpr float kValues[] = {0.1F, 1.0F / 3, 1.0F, -0.1F, 1e-20F, 3e5F, 0.7F, -1e-3F};
  for (size_t i = 0; i < v.size(); ++i) v[i] = kValues[i % 8];
  for (size_t i = 0; i < k.size(); ++i) k[i] = i % 2 == 0 ? 1.1F : 0.49658530F;
  const std::vector<float> out = Feed(*device, k, v, kPositions, state);
  // A feature's product with a value is rounded.
  for (size_t row = 0; row < 2; ++row) {
    const double feature = k[row];
    EXPECT_NEAR(state.Keys()[row] / kPositions, feature, kLost * feature);
    for (size_t c = 0; c < 8; ++c) {
      const double mean = feature * kValues[c];
      EXPECT_NEAR(state.KeyValues()[row * 8 + c] / kPositions, mean,
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

TEST(LinearSumsTest, RandomValuesAddUp) {
  constexpr int64_t kPositions = 10'000'000;
  const auto device = OneThread();
  OwnedLinearState state(*device, kShape);
  const std::vector<float> k = RandomFeatures(kBatch * 2, 1);
  // Means away from zero: an error is stated relative to the mean.
  std::vector<float> v = RandomFloats(kBatch * 8, 2);
  for (float& value : v) value += 3;
  Feed(*device, k, v, kPositions, state);
  for (size_t row = 0; row < 2; ++row) {
    for (size_t c = 0; c < 8; ++c) {
      double mean = 0, size = 0;
      for (size_t t = 0; t < static_cast<size_t>(kBatch); ++t) {
        const double term = double{k[t * 2 + row]} * v[t * 8 + c] / kBatch;
        mean += term;
        size += std::abs(term);
      }
      EXPECT_NEAR(state.KeyValues()[row * 8 + c] / kPositions, mean, (kLost + kRounding) * size);
    }
  }
}

}  // namespace
}  // namespace tvq
