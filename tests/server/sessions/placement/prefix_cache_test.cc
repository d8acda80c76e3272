// States of common prompts, through the engine.
#include <gtest/gtest.h>

#include "tests/server/sessions/placement/prefix_harness.h"

namespace tvq {
namespace {

TEST(PrefixCacheTest, FeedsACommonBeginningOnce) {
  PrefixHarness h;
  const auto first = h.Ask("ann", kLong);
  EXPECT_EQ(first.usage.cached_tokens, 0);
  EXPECT_EQ(first.prefilled, 21);
  const auto second = h.Ask("ann", kLong);
  EXPECT_EQ(second.usage.cached_tokens, 2 * kChunk);
  EXPECT_EQ(second.prefilled, 21 - 2 * kChunk) << "a restored state has to be used, too";
  EXPECT_EQ(second.sample, first.sample);
  const auto longer = h.Ask("ann", kLong + " and so on");
  EXPECT_EQ(longer.usage.cached_tokens, 2 * kChunk);
  EXPECT_EQ(longer.sample, h.Ask("ann", kLong + " and so on", {}, /*use=*/false).sample);
  EXPECT_EQ(h.store->stats().prefix_hits, 2);
  EXPECT_EQ(h.store->stats().prefix_misses, 1);
}

TEST(PrefixCacheTest, FindsWhereTwoPromptsPart) {
  PrefixHarness h;
  const std::string common = "the same for all";  // two chunks
  for (const char* tail : {"first question, long", "second question, longer"}) {
    EXPECT_EQ(h.Ask("ann", common + tail).usage.cached_tokens, 0) << "nothing kept there yet";
  }
  EXPECT_EQ(h.Ask("ann", common + "third question").usage.cached_tokens, 16);
}

TEST(PrefixCacheTest, LeavesATokenToPredictFrom) {
  PrefixHarness h;
  const std::string two_chunks = kLong.substr(0, 16);
  const auto first = h.Ask("ann", two_chunks);
  const auto again = h.Ask("ann", two_chunks);
  EXPECT_EQ(again.sample, first.sample);
  EXPECT_LT(again.usage.cached_tokens, 16);
  EXPECT_EQ(h.Ask("ann", two_chunks + "x").usage.cached_tokens, 16);
}

TEST(PrefixCacheTest, KeepsOwnersApart) {
  PrefixHarness h(100'000, {"operator's system prompt"});
  h.Ask("ann", kLong);
  EXPECT_EQ(h.Ask("bob", kLong).usage.cached_tokens, 0);
  for (const char* owner : {"ann", "bob"}) {
    EXPECT_EQ(h.Ask(owner, "operator's system prompt, and more").usage.cached_tokens, 24);
  }
}

TEST(PrefixCacheTest, SharesPromptsAsTheyBeginAContext) {
  PrefixHarness h(100'000, {kLong}, {.add_bos_token = true});
  EXPECT_EQ(h.Ask("bob", kLong + " more").usage.cached_tokens, 2 * kChunk);
}

TEST(PrefixCacheTest, ScoresEveryToken) {
  PrefixHarness h;
  h.Ask("ann", kLong);
  const auto scored = h.Ask("ann", kLong, {.prompt_logprobs = 0});
  EXPECT_EQ(scored.usage.cached_tokens, 0);
  EXPECT_EQ(scored.prompt.size(), kLong.size());
}

TEST(PrefixCacheTest, StaysWithinItsBytes) {
  const int64_t budget = 2 * StoreHarness().store->PlaceBytes(0);
  PrefixHarness h(budget);
  for (char c = 'a'; c < 'k'; ++c) h.Ask("ann", std::string(1, c) + kLong);
  h.Settle();
  // No session was made: what host memory holds is prefixes.
  EXPECT_GE(h.store->stats().prefixes, 2);
  EXPECT_LE(h.store->stats().host.state_bytes, budget);
  EXPECT_EQ(h.Ask("ann", "j" + kLong).usage.cached_tokens, 16);
  EXPECT_EQ(h.Ask("ann", "a" + kLong).usage.cached_tokens, 0);
}

TEST(PrefixCacheTest, DropsNothingForWhatDoesNotFitAllTheSame) {
  const std::string large(4000, 'x');  // 4 bytes a token, more than three states
  PrefixHarness h(16'000 + 3 * StoreHarness().store->PlaceBytes(0), {large});
  h.Ask("ann", kLong);
  h.Ask("ann", "y" + large);  // has no room beside the operator's
  EXPECT_EQ(h.Ask("ann", kLong).usage.cached_tokens, 2 * kChunk);
  EXPECT_EQ(h.Ask("ann", "y" + large).usage.cached_tokens, 0);
  EXPECT_EQ(h.Ask("bob", large + "z").usage.cached_tokens, 4000);
}

TEST(PrefixCacheTest, LeavesRequestsThatStartElsewhereAlone) {
  PrefixHarness h;
  h.Ask("ann", kLong);
  Request request = tvq::Ask(nullptr, kLong);
  request.owner = "ann";
  request.start = StartPoint{.pending = Ids("x")};
  h.store->UsePrefixes(&request);
  EXPECT_EQ(request.start->prompt_tokens, 0);
  EXPECT_TRUE(request.prefix_marks.empty());
}

TEST(PrefixCacheTest, RefusesBytesThatCannotBe) {
  Harness harness;
  const auto open = [&](const SessionOptions& options) {
    return Store::Open(harness.engine.get(), options, nullptr, [] { return absl::Now(); }).status();
  };
  EXPECT_TRUE(absl::IsInvalidArgument(open({.host_bytes = 1000, .prefix_bytes = 1000})));
  EXPECT_EQ(std::string(open({.host_bytes = 1 << 20, .shared_prompts = {"text"}}).message()),
            "--prefix-cache-bytes: is 0, must be above it with --shared-prompt-file");
}

}  // namespace
}  // namespace tvq
