#include "models/verify/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "models/runtime/registry/registry.h"

namespace tvq::verify {
namespace {

class CompareTest : public testing::TestWithParam<Mode> {
 protected:
  CompareTest() : device_(MakeDevice("cpu", 1).value()) {
    LoadOptions options;
    options.device = device_;
    model_ = LoadModel("tests/golden/heads_unequal", options).value();
    std::vector<ExpectedSequence> sequences =
        ReadExpected("tests/golden/heads_unequal/expected.safetensors", 259).value();
    for (ExpectedSequence& s : sequences) {
      if (s.greedy) {
        greedy_ = std::move(s);
      } else if (s.row_count == static_cast<int64_t>(s.tokens.size()) && s.tokens.size() > 50) {
        whole_ = std::move(s);
      }
    }
  }

  Comparison Run(const ExpectedSequence& sequence, const Codes* forced = nullptr) {
    return Compare(*model_, sequence, GetParam(), forced).value();
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<Model> model_;
  ExpectedSequence whole_, greedy_;
};

TEST_P(CompareTest, SeesOneWrongProbability) {
  ASSERT_FALSE(whole_.rows.empty());
  EXPECT_LT(Run(whole_).max_difference, 1e-4);
  whole_.rows[whole_.rows.size() / 2] += 0.01F;
  EXPECT_NEAR(Run(whole_).max_difference, 0.01, 1e-4);
  whole_.rows.back() = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isinf(Run(whole_).max_difference));
}

TEST_P(CompareTest, SeesOneWrongGreedyToken) {
  ASSERT_TRUE(greedy_.greedy);
  EXPECT_EQ(Run(greedy_).greedy_mismatches, 0);
  greedy_.tokens.back() = greedy_.tokens.back() == 10 ? 11 : 10;
  EXPECT_EQ(Run(greedy_).greedy_mismatches, 1);
}

TEST_P(CompareTest, ForcedCodesTakeEffectAndAreReported) {
  const Comparison free = Run(whole_);
  ASSERT_FALSE(free.codes.empty());
  EXPECT_EQ(Run(whole_, &free.codes).max_difference, free.max_difference);
  const Codes zeros(free.codes.size(), 0);
  EXPECT_GT(Run(whole_, &zeros).max_difference, 0.01);
}

INSTANTIATE_TEST_SUITE_P(Modes, CompareTest, testing::Values(Mode::kPrefill, Mode::kStep),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace tvq::verify
