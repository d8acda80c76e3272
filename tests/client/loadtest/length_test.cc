#include "client/loadtest/workload/length.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "client/loadtest/workload/prompts.h"

namespace tvq::loadtest {
namespace {

constexpr double kLengthSigmas = 5;  // see arrivals_test.cc

TEST(LengthDistribution, FixedIsFixed) {
  const auto length = LengthDistribution::Parse("17");
  ASSERT_TRUE(length.ok());
  Random random(1);
  EXPECT_EQ(length->Draw(random), 17);
  EXPECT_TRUE(length->fixed());
}

TEST(LengthDistribution, UniformTakesEachAsOften) {
  const auto length = LengthDistribution::Parse("uniform:3,12");
  ASSERT_TRUE(length.ok());
  Random random(1);
  std::map<int64_t, int> counts;
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) ++counts[length->Draw(random)];
  ASSERT_EQ(counts.size(), 10);
  EXPECT_EQ(counts.begin()->first, 3);
  EXPECT_EQ(counts.rbegin()->first, 12);
  // A count is binomial: p = 1/10.
  const double sigma = std::sqrt(kDraws * 0.1 * 0.9);
  for (const auto& [value, count] : counts)
    EXPECT_NEAR(count, kDraws / 10.0, kLengthSigmas * sigma) << value;
}

TEST(LengthDistribution, LognormalHasItsQuantiles) {
  const auto length = LengthDistribution::Parse("lognormal:1000,0.5,2000");
  ASSERT_TRUE(length.ok());
  Random random(1);
  constexpr int kDraws = 100'000;
  int above_median = 0, above_sigma = 0, at_max = 0;
  for (int i = 0; i < kDraws; ++i) {
    const int64_t draw = length->Draw(random);
    ASSERT_GE(draw, 1);
    ASSERT_LE(draw, 2000);
    above_median += draw > 1000 ? 1 : 0;
    above_sigma += static_cast<double>(draw) > 1000 * std::exp(0.5) ? 1 : 0;
    at_max += draw == 2000 ? 1 : 0;
  }
  const auto near = [&](int count, double probability) {
    // Rounding to whole tokens moves a quantile by half a token, that is the probability by at most
    // half the density there, at most 1 / (1000 * 0.5 * sqrt(2 pi)) per token.
    const double rounding = 0.5 / (1000 * 0.5 * std::sqrt(2 * M_PI));
    const double sigma = std::sqrt(probability * (1 - probability) / kDraws);
    EXPECT_NEAR(static_cast<double>(count) / kDraws, probability, kLengthSigmas * sigma + rounding);
  };
  const auto tail = [](double z) { return std::erfc(z / std::sqrt(2.0)) / 2; };
  near(above_median, 0.5);
  near(above_sigma, tail(1));
  near(at_max, tail(std::log(2.0) / 0.5));
}

TEST(LengthDistribution, SaysWhatIsWrong) {
  for (const char* text : {"", "0", "-3", "x", "1.5", "uniform:5", "uniform:5,3", "uniform:0,3",
                           "lognormal:10,0.5", "lognormal:10,0,20", "lognormal:30,0.5,20",
                           "lognormal:10,9,20", "lognormal:10,nan,20", "gauss:1,2", "100000001"}) {
    const auto length = LengthDistribution::Parse(text);
    ASSERT_FALSE(length.ok()) << text;
    EXPECT_THAT(std::string(length.status().message()), testing::HasSubstr("uniform:A,B")) << text;
  }
}

TEST(Prompts, PiecesHaveTheirLengthAndReachBothEnds) {
  std::vector<int32_t> ids(10);
  for (int i = 0; i < 10; ++i) ids[i] = i;
  const auto prompts = Prompts::Pieces(ids, LengthDistribution::Fixed(4));
  Random random(1);
  std::map<int32_t, int> begins;
  for (int i = 0; i < 1000; ++i) {
    const Prompt prompt = prompts->Draw(random);
    ASSERT_EQ(prompt.ids.size(), 4);
    EXPECT_EQ(prompt.ids.back(), prompt.ids.front() + 3);
    ++begins[prompt.ids.front()];
  }
  EXPECT_EQ(begins.size(), 7);  // 0 .. 6
}

TEST(Prompts, LinesLeaveOutBlankOnes) {
  EXPECT_EQ(Lines("one\r\n\n  \ntwo words\nthree"),
            (std::vector<std::string>{"one", "two words", "three"}));
}

}  // namespace
}  // namespace tvq::loadtest
