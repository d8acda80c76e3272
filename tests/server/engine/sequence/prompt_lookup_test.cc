#include "server/engine/sequence/prompt_lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <vector>

namespace tvq {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// With room for as many tokens as there may be, so that few runs have the same place.
std::vector<int32_t> GuessAfter(const std::vector<int32_t>& tokens, int64_t most) {
  PromptLookup lookup(PromptLookup::kMostTokens);
  for (const int32_t id : tokens) lookup.Append(id);
  std::vector<int32_t> guess;
  lookup.Guess(most, guess);
  return guess;
}

// What followed the latest earlier place of the last `length` tokens, by looking everywhere.
std::vector<int32_t> After(std::span<const int32_t> tokens, size_t length, size_t most) {
  std::vector<int32_t> guess;
  if (tokens.size() < length) return guess;
  const auto last = tokens.last(length);
  for (size_t end = tokens.size() - 1; end >= length; --end) {
    if (!std::equal(last.begin(), last.end(), tokens.subspan(end - length).begin())) continue;
    const size_t period = tokens.size() - end;
    for (size_t i = 0; i < most; ++i) guess.push_back(tokens[end + i % period]);
    return guess;
  }
  return guess;
}

TEST(PromptLookupTest, GoesOnAsWhereTheLastTokensCameBefore) {
  EXPECT_THAT(GuessAfter({1, 2, 3, 4, 5, 6, 1, 2, 3}, 3), ElementsAre(4, 5, 6));
  EXPECT_THAT(GuessAfter({1, 2, 3, 4, 5, 6, 1, 2, 3}, 1), ElementsAre(4));
  EXPECT_THAT(GuessAfter({9, 2, 3, 4, 5, 6, 1, 2, 3}, 2), ElementsAre(4, 5));  // two of them
  EXPECT_THAT(GuessAfter({9, 8, 3, 4, 5, 6, 1, 2, 3}, 2), IsEmpty());
}

TEST(PromptLookupTest, TakesTheLatestPlaceAndThreeTokensBeforeTwo) {
  EXPECT_THAT(GuessAfter({1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3}, 1), ElementsAre(5));
  EXPECT_THAT(GuessAfter({1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3}, 1), ElementsAre(4));
}

TEST(PromptLookupTest, GoesRoundWhereTheTextRepeatsItself) {
  EXPECT_THAT(GuessAfter({7, 7, 7}, 4), ElementsAre(7, 7, 7, 7));
  EXPECT_THAT(GuessAfter({1, 2, 3, 1, 2, 3, 1, 2}, 7), ElementsAre(3, 1, 2, 3, 1, 2, 3));
}

TEST(PromptLookupTest, NothingIsKnownOfFewTokensOrNone) {
  EXPECT_THAT(GuessAfter({}, 4), IsEmpty());
  EXPECT_THAT(GuessAfter({0}, 4), IsEmpty());
  EXPECT_THAT(GuessAfter({0, 0}, 4), IsEmpty());
  EXPECT_THAT(GuessAfter({0, 0, 0, 0}, 0), IsEmpty());
}

// A run that was forgotten is not found, so of some places a guess is missing; none is wrong.
TEST(PromptLookupTest, GuessesAreWhatLookingEverywhereFinds) {
  std::mt19937 random(1);
  std::vector<int32_t> tokens;
  PromptLookup lookup(400);
  int found = 0;
  for (int i = 0; i < 400; ++i) {
    tokens.push_back(static_cast<int32_t>(random() % 9));
    lookup.Append(tokens.back());
    std::vector<int32_t> guess;
    lookup.Guess(6, guess);
    const auto three = After(tokens, 3, 6), two = After(tokens, 2, 6);
    EXPECT_TRUE(guess.empty() || guess == three || guess == two) << "after " << tokens.size();
    if (guess == (three.empty() ? two : three)) ++found;
  }
  EXPECT_GT(found, 300);
}

// What has left the memory is not guessed from, and the rest still is.
TEST(PromptLookupTest, RemembersSoManyTokens) {
  constexpr auto kMost = PromptLookup::kMostTokens;
  // With kMost - 5 the oldest tokens that are known are 2 and 3.
  for (const int64_t between : {kMost - 6, kMost - 5, kMost - 4, kMost + 10, 3 * kMost}) {
    std::vector<int32_t> tokens{1, 2, 3};
    tokens.insert(tokens.end(), static_cast<size_t>(between), 50);
    tokens.insert(tokens.end(), {1, 2, 3});
    const std::vector<int32_t> guess = GuessAfter(tokens, 1);
    if (between <= kMost - 5) {
      EXPECT_THAT(guess, ElementsAre(50)) << between;
    } else {
      EXPECT_THAT(guess, IsEmpty()) << between;
    }
  }
}

}  // namespace
}  // namespace tvq
