#include "kernels/ops/sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Result {
  absl::Status status;
  std::vector<TokenLogprob> chosen, top;
  std::vector<absl::Status> row_status;
};

Result Choose(Device& device, const std::vector<float>& logits, int64_t vocab,
              const std::vector<SampleRow>& rows, int64_t max_top = 0) {
  Result result{{},
                std::vector<TokenLogprob>(rows.size()),
                std::vector<TokenLogprob>(rows.size() * static_cast<size_t>(max_top)),
                std::vector<absl::Status>(rows.size())};
  const auto count = static_cast<int64_t>(logits.size()) / vocab;
  const DeviceArray<float> memory(device, logits);
  result.status = Sample(device, {{memory.data(), {count, vocab}},
                                  rows,
                                  result.chosen,
                                  result.top,
                                  max_top,
                                  result.row_status});
  return result;
}

class SampleTest : public ::testing::TestWithParam<DeviceCase> {
 protected:
  // How often each id comes in `draws` draws at different positions.
  std::map<int32_t, int> Histogram(const std::vector<float>& logits, SampleRow row, int draws) {
    std::vector<SampleRow> rows(static_cast<size_t>(draws), row);
    for (size_t i = 0; i < rows.size(); ++i) rows[i].position = i;
    std::map<int32_t, int> histogram;
    const Result result = Choose(*device_, logits, static_cast<int64_t>(logits.size()), rows);
    EXPECT_TRUE(result.status.ok()) << result.status.ToString();
    for (const TokenLogprob& chosen : result.chosen) ++histogram[chosen.id];
    return histogram;
  }

  std::vector<int32_t> Kept(const std::vector<float>& probabilities, const SampleRow& row) {
    std::vector<float> logits;
    logits.reserve(probabilities.size());
    for (const float p : probabilities) logits.push_back(std::log(p));
    std::vector<int32_t> ids;
    for (const auto& [id, count] : Histogram(logits, row, 400)) ids.push_back(id);
    return ids;
  }

  int32_t Greedy(const std::vector<float>& logits, SampleRow row) {
    row.temperature = 0;
    const Result result = Choose(*device_, logits, static_cast<int64_t>(logits.size()), {row});
    EXPECT_TRUE(result.status.ok() && result.row_status[0].ok());
    return result.chosen[0].id;
  }

  void SetUp() override {
    TVQ_SKIP_WITHOUT_DEVICE(GetParam());
    device_ = MakeTestDevice(GetParam());
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Device> reference_ = MakeTestDevice("reference");
};

// Each id that may come does in 400 draws: the rarest has probability 0.05, and misses them all
// with probability 1e-9.
TEST_P(SampleTest, FiltersKeepWhatTheirDefinitionsSay) {
  if (InPlainOrder(GetParam()))
    GTEST_SKIP() << "keeps what the reference does, which MatchesReference says";
  const std::vector<float> p = {0.1F, 0.4F, 0.05F, 0.25F, 0.2F};
  EXPECT_THAT(Kept(p, {}), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(Kept(p, {.top_k = 1}), ElementsAre(1));
  EXPECT_THAT(Kept(p, {.top_k = 3}), ElementsAre(1, 3, 4));
  EXPECT_THAT(Kept(p, {.top_k = 50}), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(Kept(p, {.top_p = 0.39F}), ElementsAre(1));
  EXPECT_THAT(Kept(p, {.top_p = 0.64F}), ElementsAre(1, 3));
  EXPECT_THAT(Kept(p, {.top_p = 0.66F}), ElementsAre(1, 3, 4));
  EXPECT_THAT(Kept(p, {.top_p = 0.96F}), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(Kept(p, {.top_p = 1e-6F}), ElementsAre(1));
  EXPECT_THAT(Kept(p, {.min_p = 0.51F}), ElementsAre(1, 3));
  EXPECT_THAT(Kept(p, {.min_p = 0.24F}), ElementsAre(0, 1, 3, 4));
  // top_p counts among what top_k left: 0.4 of 0.65 is 61%.
  EXPECT_THAT(Kept(p, {.top_k = 2, .top_p = 0.6F}), ElementsAre(1));
  EXPECT_THAT(Kept(p, {.top_k = 2, .top_p = 0.63F}), ElementsAre(1, 3));
}

TEST_P(SampleTest, TiesOfTheLastOfTopKStay) {
  const std::vector<float> logits = {1, 3, 2, 2, 2, 0};
  std::set<int32_t> ids;
  for (const auto& [id, count] : Histogram(logits, {.top_k = 2}, 400)) ids.insert(id);
  EXPECT_THAT(ids, ElementsAre(1, 2, 3, 4));
}

TEST_P(SampleTest, TemperatureZeroTakesTheLowestOfTheLargest) {
  EXPECT_EQ(Greedy({1, 5, 5, 4}, {}), 1);
  EXPECT_EQ(Greedy({1, 5, 5, 4}, {.top_k = 3, .top_p = 0.5F, .seed = 3}), 1);
}

TEST_P(SampleTest, IdsAreAllowedBannedAndBiased) {
  const std::vector<float> logits = {1, 2, 3, 4};
  const std::vector<int32_t> low = {0, 1};
  const std::vector<int32_t> top = {3};
  EXPECT_EQ(Greedy(logits, {.allowed_ids = low}), 1);
  EXPECT_EQ(Greedy(logits, {.banned_ids = top}), 2);
  const std::vector<LogitBias> once = {{0, 2.5F}};
  const std::vector<LogitBias> twice = {{0, 2.5F}, {0, 2.5F}};
  EXPECT_EQ(Greedy(logits, {.logit_bias = once}), 3);
  EXPECT_EQ(Greedy(logits, {.logit_bias = twice}), 0);
  // A bias does not bring back what is not allowed.
  EXPECT_EQ(Greedy(logits, {.logit_bias = twice, .allowed_ids = top}), 3);
  const std::vector<uint32_t> second_and_third = {0b0110}, third = {0b0100};
  EXPECT_EQ(Greedy(logits, {.mask = second_and_third}), 2);
  EXPECT_EQ(Greedy(logits, {.allowed_ids = low, .mask = second_and_third}), 1);
  EXPECT_EQ(Greedy(logits, {.logit_bias = twice, .mask = third}), 2);
  const Result none = Choose(*device_, logits, 4,
                             {{.allowed_ids = top, .banned_ids = top},
                              {.allowed_ids = top, .mask = second_and_third},
                              {.mask = third, .banned_ids = std::vector<int32_t>{2}}});
  for (const absl::Status& status : none.row_status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_P(SampleTest, PenaltiesFollowTheirFormulas) {
  const std::vector<TokenCount> counts = {{0, 1, 0}, {1, 0, 3}};
  // Repetition counts prompt and output, divides what is positive, multiplies what is negative.
  EXPECT_EQ(Greedy({4, 3.9F, 2.1F}, {.repetition_penalty = 2, .counts = counts}), 2);
  EXPECT_EQ(Greedy({4, 3.9F, 1.9F}, {.repetition_penalty = 2, .counts = counts}), 0);
  EXPECT_EQ(Greedy({-1, -1, -1.9F}, {.repetition_penalty = 2, .counts = counts}), 2);
  // Presence and frequency count the output alone.
  EXPECT_EQ(Greedy({4, 5, 0}, {.presence_penalty = 0.9F, .counts = counts}), 1);
  EXPECT_EQ(Greedy({4, 5, 0}, {.presence_penalty = 1.1F, .counts = counts}), 0);
  EXPECT_EQ(Greedy({4, 5, 0}, {.frequency_penalty = 0.3F, .counts = counts}), 1);
  EXPECT_EQ(Greedy({4, 5, 0}, {.frequency_penalty = 0.4F, .counts = counts}), 0);
  // Repetition comes first: 6 / 2 - 0.5 = 2.5 is below 2.6, (6 - 0.5) / 2 would be above.
  EXPECT_EQ(
      Greedy({0, 6, 2.6F}, {.repetition_penalty = 2, .presence_penalty = 0.5F, .counts = counts}),
      2);
}

// Pearson's statistic over 40 ids: 39 degrees of freedom, 99.99% below 85. The CUDA kernels on the
// CPU take a millisecond a draw.
TEST_P(SampleTest, DrawsFollowTheDistribution) {
  if (InPlainOrder(GetParam()))
    GTEST_SKIP() << "draws as the reference, which MatchesReference says";
  const int draws = GetParam().name == "cuda_stand_in" ? 1000 : 20000;
  const auto logits = RandomFloats(40, 5);
  struct Setting {
    float temperature;
    float top_p;
  };
  for (const Setting setting : {Setting{1, 1}, Setting{0.7F, 1}, Setting{1, 0.999999F}}) {
    const auto histogram = Histogram(
        logits, {.temperature = setting.temperature, .top_p = setting.top_p, .seed = 9}, draws);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit / setting.temperature);
    double statistic = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      const double expected = draws * std::exp(logits[i] / setting.temperature) / sum;
      const auto found = histogram.find(static_cast<int32_t>(i));
      const double count = found == histogram.end() ? 0 : found->second;
      statistic += (count - expected) * (count - expected) / expected;
    }
    EXPECT_LT(statistic, 85);
  }
}

// Draws coincide with the oracle's unless the uniform number falls within rounding of a boundary.
TEST_P(SampleTest, MatchesReference) {
  for (const int64_t vocab : {int64_t{5}, int64_t{259}, int64_t{5003}}) {
    const auto logits = RandomFloats(3 * vocab, 6, 3);
    const std::vector<TokenCount> counts = {{0, 2, 1}, {3, 0, 4}, {4, 1, 0}};
    std::vector<SampleRow> rows;
    std::vector<uint32_t> mask(static_cast<size_t>(MaskWords(vocab)));
    for (size_t w = 0; w < mask.size(); ++w) mask[w] = 0xa5c3'0f96U + static_cast<uint32_t>(w);
    // Each setting comes with some others in 20 rows, with most in 60.
    const uint64_t count = vocab > 1000 && InPlainOrder(GetParam()) ? 20 : 60;
    rows.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      SampleRow row{.logits_row = static_cast<int64_t>(i % 3), .seed = i, .position = i};
      row.temperature = i % 7 == 0 ? 0 : 0.5F + static_cast<float>(i % 4) / 4;
      if (i % 2 == 1) row.top_p = 0.9F;
      if (i % 3 == 1) row.top_k = 20;
      if (i % 5 == 1) row.min_p = 0.01F;
      if (i % 4 == 1) row.repetition_penalty = 1.3F;
      if (i % 6 == 1) row.mask = mask;
      row.counts = counts;
      row.top_logprobs = static_cast<int64_t>(i % 5) - 1;
      rows.push_back(row);
    }
    const Result got = Choose(*device_, logits, vocab, rows, 3);
    const Result want = Choose(*reference_, logits, vocab, rows, 3);
    ASSERT_TRUE(got.status.ok()) << got.status.ToString();
    for (size_t i = 0; i < rows.size(); ++i) {
      ASSERT_EQ(got.chosen[i].id, want.chosen[i].id) << "row " << i << " vocab " << vocab;
      EXPECT_EQ(got.chosen[i].rank, want.chosen[i].rank);
      EXPECT_NEAR(got.chosen[i].logprob, want.chosen[i].logprob, 1e-5);
      for (int64_t j = 0; j < rows[i].top_logprobs; ++j) {
        const size_t at = i * 3 + static_cast<size_t>(j);
        EXPECT_EQ(got.top[at].id, want.top[at].id);
        EXPECT_NEAR(got.top[at].logprob, want.top[at].logprob, 1e-5);
      }
    }
  }
}

TEST_P(SampleTest, ATokenDoesNotDependOnItsNeighbours) {
  constexpr int64_t kVocab = 1500;
  const auto logits = RandomFloats(8 * kVocab, 7);
  std::vector<SampleRow> rows;
  rows.reserve(8);
  for (uint64_t i = 0; i < 8; ++i) {
    rows.push_back(
        {.logits_row = static_cast<int64_t>(i), .seed = 5, .sample_index = i, .position = 100 + i});
  }
  const Result all = Choose(*device_, logits, kVocab, rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(Choose(*device_, logits, kVocab, {rows[i]}).chosen[0].id, all.chosen[i].id);
  }
  const auto single = MakeTestDevice(GetParam(), 1);
  const Result other = Choose(*single, logits, kVocab, rows);
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(other.chosen[i].id, all.chosen[i].id);
}

TEST_P(SampleTest, ARowThatIsNotFiniteFailsAlone) {
  std::vector<float> logits = RandomFloats(3 * 20, 8);
  logits[25] = NAN;
  const Result result =
      Choose(*device_, logits, 20, {{.logits_row = 0}, {.logits_row = 1}, {.logits_row = 2}});
  ASSERT_TRUE(result.status.ok());
  EXPECT_TRUE(result.row_status[0].ok());
  EXPECT_EQ(result.row_status[1].code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(result.row_status[2].ok());
}

TEST(SampleCheckTest, NamesWhatIsWrong) {
  const auto cpu = MakeTestDevice("cpu");
  const std::vector<float> logits(10);
  const auto message = [&](const SampleRow& row) {
    return std::string(Choose(*cpu, logits, 10, {row}).status.message());
  };
  const std::vector<int32_t> ids = {10};
  EXPECT_THAT(message({.allowed_ids = ids}), HasSubstr("allowed_ids holds id 10"));
  const std::vector<uint32_t> two(2);
  EXPECT_THAT(message({.mask = two}), HasSubstr("mask"));
  EXPECT_THAT(message({.banned_ids = ids}), HasSubstr("banned_ids holds id 10"));
  EXPECT_THAT(message({.logits_row = 1}), HasSubstr("logits_row is 1"));
  EXPECT_THAT(message({.temperature = NAN}), HasSubstr("temperature"));
  EXPECT_THAT(message({.top_logprobs = 1}), HasSubstr("top_logprobs is 1"));
}

INSTANTIATE_TEST_SUITE_P(All, SampleTest, ::testing::ValuesIn(AllDevices()), kCaseName);

}  // namespace
}  // namespace tvq
