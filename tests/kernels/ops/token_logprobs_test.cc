#include "kernels/ops/token_logprobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

struct Result {
  absl::Status status;
  std::vector<TokenLogprob> target, top;
};

Result Score(Device& device, const std::vector<float>& logits, int64_t vocab,
             const std::vector<int32_t>& targets, int64_t top) {
  const auto rows = static_cast<int64_t>(targets.size());
  Result result{{},
                std::vector<TokenLogprob>(targets.size()),
                std::vector<TokenLogprob>(targets.size() * static_cast<size_t>(top))};
  const DeviceArray<float> memory(device, logits);
  result.status = TokenLogprobs(
      device, {{memory.data(), {rows, vocab}}, targets, top, result.target, result.top});
  return result;
}

// log-softmax in float32 is exact to its own last rounding and to the error of the sum: 2e-7 of an
// exponential and 64 + 6 float32 additions of positive terms, of which most errors cancel; the
// worst case is stated.
double Bound(double logprob) { return 2e-7 + 70 * kRounding + 2 * kRounding * std::abs(logprob); }

void ExpectSame(const std::vector<TokenLogprob>& got, const std::vector<TokenLogprob>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].id, want[i].id) << i;
    EXPECT_EQ(got[i].rank, want[i].rank) << i;
    if (want[i].logprob == got[i].logprob) continue;  // -infinity
    EXPECT_NEAR(got[i].logprob, want[i].logprob, Bound(want[i].logprob)) << i;
  }
}

class TokenLogprobsTest : public ::testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override {
    TVQ_SKIP_WITHOUT_DEVICE(GetParam());
    device_ = MakeTestDevice(GetParam());
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Device> reference_ = MakeTestDevice("reference");
};

TEST_P(TokenLogprobsTest, MatchesReference) {
  for (const int64_t vocab : {1, 2, 15, 259, 1024, 5003, 20000}) {
    constexpr int64_t kRows = 5;
    const auto logits = RandomFloats(kRows * vocab, 1, 4);
    const auto targets = RandomIndices(kRows, vocab, 2);
    for (const int64_t top : {int64_t{0}, int64_t{1}, std::min<int64_t>(vocab, 20), vocab}) {
      if (top > 1000) continue;
      const Result got = Score(*device_, logits, vocab, targets, top);
      const Result want = Score(*reference_, logits, vocab, targets, top);
      ASSERT_TRUE(got.status.ok()) << got.status.ToString();
      ExpectSame(got.target, want.target);
      ExpectSame(got.top, want.top);
    }
  }
}

TEST_P(TokenLogprobsTest, TiesAndMaskedEntriesKeepTheLowerIdFirst) {
  constexpr int64_t kVocab = 40;
  std::vector<float> logits(kVocab, -std::numeric_limits<float>::infinity());
  for (const size_t i : {5, 17, 18, 33}) logits[i] = 2;
  logits[20] = 3;
  for (const int32_t target : {0, 5, 17, 18, 20, 33, 39}) {
    const Result got = Score(*device_, logits, kVocab, {target}, 7);
    const Result want = Score(*reference_, logits, kVocab, {target}, 7);
    ASSERT_TRUE(got.status.ok());
    ExpectSame(got.target, want.target);
    ExpectSame(got.top, want.top);
  }
}

TEST_P(TokenLogprobsTest, NamesARowThatIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr int64_t kVocab = 50;
  const std::vector<float> good = RandomFloats(3 * kVocab, 1);
  for (const float bad : {NAN, kInfinity}) {
    for (const size_t at : {0, 20, 49}) {
      auto logits = good;
      logits[kVocab + at] = bad;
      const Result result = Score(*device_, logits, kVocab, {1, 2, 3}, 0);
      EXPECT_EQ(result.status.code(), absl::StatusCode::kInternal);
      EXPECT_THAT(std::string(result.status.message()), HasSubstr("row 1"));
    }
  }
  auto logits = good;
  std::fill_n(logits.begin() + 2 * kVocab, kVocab, -kInfinity);
  EXPECT_THAT(std::string(Score(*device_, logits, kVocab, {1, 2, 3}, 0).status.message()),
              HasSubstr("row 2"));
}

TEST_P(TokenLogprobsTest, ARowHasTheSameBitsInAnyBatch) {
  constexpr int64_t kVocab = 3001;
  const auto logits = RandomFloats(4 * kVocab, 3);
  const Result all = Score(*device_, logits, kVocab, {1, 2, 3, 4}, 0);
  for (int64_t n = 0; n < 4; ++n) {
    const std::vector<float> row(logits.begin() + n * kVocab, logits.begin() + (n + 1) * kVocab);
    const Result alone = Score(*device_, row, kVocab, {static_cast<int32_t>(n + 1)}, 0);
    EXPECT_EQ(alone.target[0].logprob, all.target[static_cast<size_t>(n)].logprob);
  }
}

TEST(TokenLogprobsCheckTest, NamesWhatIsWrong) {
  const auto cpu = MakeTestDevice("cpu");
  const std::vector<float> logits(10);
  EXPECT_THAT(std::string(Score(*cpu, logits, 10, {10}, 0).status.message()),
              HasSubstr("ids[0] is 10, expected 0 to 9"));
  EXPECT_THAT(std::string(Score(*cpu, logits, 10, {1}, 11).status.message()),
              HasSubstr("top is 11, expected 0 to 10"));
}

INSTANTIATE_TEST_SUITE_P(All, TokenLogprobsTest, ::testing::ValuesIn(AllDevices()), kCaseName);

}  // namespace
}  // namespace tvq
