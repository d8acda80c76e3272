// Accumulators must last: 1e8 positions of one code retire, and the mean row still holds.
#include <gtest/gtest.h>

#include "tests/kernels/ops/op_testing.h"
#include "tests/kernels/ops/vq_state.h"

namespace tvq {
namespace {

// A float32 count would stop at 16,777,216.
constexpr int64_t kRetirements = 100'000'000;
constexpr int64_t kBatch = 1'000'000;
constexpr VqShape kShape{1, 1, 1, 16, DType::kFloat32};

// Feeds kRetirements + 1 positions (a window of one) whose values repeat `batch`.
void Retire(Device& cpu, const std::vector<float>& batch, OwnedState& state) {
  const std::vector<int32_t> codes(kBatch, 0);
  for (int64_t position = 0; position <= kRetirements; position += kBatch) {
    const int64_t count = std::min(kBatch, kRetirements + 1 - position);
    ASSERT_TRUE(VqAppend(cpu, {kShape,
                               state.View(),
                               position,
                               {codes.data(), {count, 1}},
                               {batch.data(), {count, 1, kShape.value}}})
                    .ok());
  }
}

// The bound of the contract is 1e-6 of the mean row; the pair of float32 keeps about 48 bits, so
// that 1e8 roundings in one direction lose at most 1e8 * 2^-47 = 7e-7.
void ExpectMeans(const std::vector<float>& batch, OwnedState& state) {
  ASSERT_EQ(state.count()[0], kRetirements);
  const std::vector<float> sums = state.sum(), carries = state.carry();
  for (size_t c = 0; c < 16; ++c) {
    double mean = 0;
    for (size_t t = 0; t < kBatch; ++t) mean += batch[t * 16 + c];
    mean /= kBatch;
    const double pair = (double(sums[c]) + carries[c]) / kRetirements;
    const double sum = double(sums[c]) / kRetirements;
    EXPECT_NEAR(pair, mean, 7e-7 * std::abs(mean)) << "column " << c;
    EXPECT_NEAR(sum, mean, 1e-6 * std::abs(mean)) << "column " << c;
  }
}

TEST(VqRetireTest, ConstantValuesAddUp) {
  std::vector<float> batch(kBatch * 16);
  constexpr float kValues[] = {0.1F, 1.0F / 3, 1.0F, -0.1F, 1e-20F, 3e5F, 0.7F, -1e-3F};
  for (size_t i = 0; i < batch.size(); ++i) batch[i] = kValues[i % 8];
  const auto cpu = MakeTestDevice("cpu");
  OwnedState state(*cpu, kShape);
  Retire(*cpu, batch, state);
  ExpectMeans(batch, state);
}

TEST(VqRetireTest, RandomValuesAddUp) {
  // Means away from zero: an error is stated relative to the mean.
  std::vector<float> batch = RandomFloats(kBatch * 16, 1);
  for (float& value : batch) value += 3;
  const auto cpu = MakeTestDevice("cpu");
  OwnedState state(*cpu, kShape);
  Retire(*cpu, batch, state);
  ExpectMeans(batch, state);
}

}  // namespace
}  // namespace tvq
