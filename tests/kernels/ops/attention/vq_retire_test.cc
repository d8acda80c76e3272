// Accumulators must last: more positions of one code retire than a float32 can count, and the mean
// row still holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <vector>

#include "tests/kernels/ops/attention/vq_state.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

constexpr int64_t kBatch = 1'000'000;
constexpr VqShape kShape{1, 1, 1, 16, DType::kFloat32};

// More than the 16,777,216 at which a float32 count would stop. A GPU's kernels on the CPU, which
// take far longer, only show the way.
constexpr int64_t kMany = 20'000'000;

struct RetireCase {
  DeviceCase device;
  int64_t retirements;
};

void PrintTo(const RetireCase& c, std::ostream* out) { *out << NameOf(c.device); }

class VqRetireTest : public testing::TestWithParam<RetireCase> {
 protected:
  void SetUp() override { TVQ_SKIP_WITHOUT_DEVICE(GetParam().device); }

  // Feeds one position more than retire (a window of one), whose values repeat `batch`, and
  // compares.
  void ExpectMeansOf(const std::vector<float>& batch) {
    const auto device = MakeTestDevice(GetParam().device);
    OwnedState state(*device, kShape);
    Retire(*device, batch, state);
    ExpectMeans(batch, state);
  }

 private:
  void Retire(Device& device, const std::vector<float>& batch, OwnedState& state) {
    const DeviceArray<int32_t> codes(device, std::vector<int32_t>(kBatch, 0));
    const DeviceArray<float> values(device, batch);
    const int64_t end = GetParam().retirements + 1;
    for (int64_t position = 0; position < end; position += kBatch) {
      const int64_t count = std::min(kBatch, end - position);
      ASSERT_TRUE(Append(device, kShape, state, position, count, codes, values).ok());
    }
  }

  void ExpectMeans(const std::vector<float>& batch, OwnedState& state);
};

// The bound of the contract is 1e-6 of the mean row, for 1e8 positions; the pair of float32 keeps
// about 48 bits, so that as many roundings in one direction lose at most 1e8 * 2^-47 = 7e-7, and
// fewer as much less: 7e-15 each.
void VqRetireTest::ExpectMeans(const std::vector<float>& batch, OwnedState& state) {
  const int64_t retired = GetParam().retirements;
  ASSERT_EQ(state.count()[0], retired);
  const std::vector<float> sums = state.sum(), carries = state.carry();
  const int64_t rows = std::min(kBatch, retired);
  const auto count = static_cast<double>(retired);
  for (size_t c = 0; c < 16; ++c) {
    double mean = 0;
    for (size_t t = 0; t < static_cast<size_t>(rows); ++t) mean += batch[t * 16 + c];
    mean /= static_cast<double>(rows);
    const double pair = (double(sums[c]) + carries[c]) / count;
    const double sum = double(sums[c]) / count;
    EXPECT_NEAR(pair, mean, 7e-15 * count * std::abs(mean)) << "column " << c;
    EXPECT_NEAR(sum, mean, 1e-6 * std::abs(mean)) << "column " << c;
  }
}

TEST_P(VqRetireTest, ConstantValuesAddUp) {
  std::vector<float> batch(kBatch * 16);
  constexpr float kValues[] = {0.1F, 1.0F / 3, 1.0F, -0.1F, 1e-20F, 3e5F, 0.7F, -1e-3F};
  for (size_t i = 0; i < batch.size(); ++i) batch[i] = kValues[i % 8];
  ExpectMeansOf(batch);
}

TEST_P(VqRetireTest, RandomValuesAddUp) {
  // Means away from zero: an error is stated relative to the mean.
  std::vector<float> batch = RandomFloats(kBatch * 16, 1);
  for (float& value : batch) value += 3;
  ExpectMeansOf(batch);
}

INSTANTIATE_TEST_SUITE_P(Devices, VqRetireTest,
                         testing::Values(RetireCase{{"cpu", ""}, kMany},
                                         RetireCase{{"cuda_stand_in", "shuffled"}, 2'000},
                                         RetireCase{{"cuda", ""}, kMany}),
                         [](const auto& info) { return NameOf(info.param.device); });

}  // namespace
}  // namespace tvq
