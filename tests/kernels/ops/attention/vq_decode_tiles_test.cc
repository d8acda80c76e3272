// Rows of values that are wider than a task's tile, and that threads share: the CPU's tiles alone.
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/ops/attention/vq_attention.h"
#include "tests/kernels/ops/attention/vq_state.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

struct TilesCase {
  int64_t heads, value;
};

// Heads that share rows and one that has its own; one tile and several; a part of a vector left.
constexpr TilesCase kTilesCases[] = {{1, 2101}, {1, 4160}, {2, 805}};

class VqDecodeTilesTest : public ::testing::TestWithParam<VqRead> {};

TEST_P(VqDecodeTilesTest, BitsDoNotDependOnThreads) {
  constexpr int64_t kTokens = 90, kDecoded = 2;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (const TilesCase& c : kTilesCases) {
      const VqShape shape{1, 40, 33, c.value, dtype, GetParam()};
      const VqInputs inputs(shape, c.heads, kTokens, 3);
      const auto decode = [&](int threads) {
        const std::unique_ptr<Device> device = MakeTestDevice("cpu", "", threads);
        OwnedState state(*device, shape);
        return inputs.Decode(*device, state, kTokens - kDecoded);
      };
      const std::vector<float> alone = decode(1);
      const std::vector<double> wanted = inputs.Quadratic(kTokens - kDecoded);
      const double bound = inputs.DecodeBound() + inputs.CopyBound();
      ASSERT_EQ(alone.size(), wanted.size());
      for (size_t i = 0; i < alone.size(); ++i) {
        ASSERT_NEAR(alone[i], wanted[i], bound)
            << c.heads << " heads, " << c.value << " columns, element " << i;
      }
      // So many that tiles are narrowed for them, and not so many.
      for (const int threads : {2, 9}) {
        EXPECT_EQ(decode(threads), alone)
            << c.heads << " heads, " << c.value << " columns, " << threads << " threads";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Reads, VqDecodeTilesTest, testing::Values(VqRead::kExact, VqRead::kInt8));

}  // namespace
}  // namespace tvq
