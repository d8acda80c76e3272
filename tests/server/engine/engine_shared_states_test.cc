// Samples of one prompt, and prompts that begin alike, have together what is sealed of their
// states.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tests/server/engine/harness.h"

namespace tvq {
namespace {

// 1,000 bytes and 1,000 a token, sealed 16 tokens at a time.
constexpr FakeOptions kPages{.max_position = 100, .bytes_per_token = 1000, .page_tokens = 16};
const std::string kPrompt(40, 'x');

// Keeps what it gets.
class Prefixes : public PrefixSink {
 public:
  void OnPrefix(int64_t, HeldState copy) override { copies.push_back(std::move(copy)); }
  std::vector<HeldState> copies;
};

TEST(EngineSharedStatesTest, SamplesOfAPromptTakeItsPagesOnce) {
  FakeOptions apart = kPages;
  apart.page_tokens = 0;
  const SamplingParams sampling{.seed = 5, .ignore_eos = true, .max_tokens = 8, .n = 4};
  std::vector<std::string> texts;
  for (const FakeOptions& fake : {kPages, apart}) {
    std::atomic<StateBudget*> budget = nullptr;
    std::atomic<int64_t> used = 0;
    Harness h(fake, SmallOptions(), [&](std::string_view call) {
      if (call == "Decode" && budget != nullptr)
        used = std::max(used.load(), budget.load()->used());
      return absl::OkStatus();
    });
    budget = &h.engine->budget();
    const auto sink = Generate(*h.engine, kPrompt, sampling);
    for (const auto& [index, sample] : sink->samples()) texts.push_back(sample.text);
    const int64_t each = h.model->StateBytes(40 + 8);
    EXPECT_EQ(used, fake.page_tokens > 0 ? 4 * each - 3 * 32'000 : 4 * each);
    EXPECT_EQ(h.engine->budget().used(), 0);
    EXPECT_EQ(h.engine->budget().sealed_bytes(), 0);
  }
  EXPECT_EQ(std::vector<std::string>(texts.begin(), texts.begin() + 4),
            std::vector<std::string>(texts.begin() + 4, texts.end()));
}

TEST(EngineSharedStatesTest, APrefixTakesOnlyWhatIsNotSealed) {
  Harness h(kPages, SmallOptions());
  const auto prefixes = std::make_shared<Prefixes>();
  const auto sink = NewSink();
  Request request = Ask(sink, kPrompt, {.max_tokens = 1});
  request.prefix_marks = {32, 40};
  request.prefixes = prefixes;
  ASSERT_TRUE(h.engine->Submit(std::move(request)).ok());
  ASSERT_TRUE(sink->Wait().ok());
  ASSERT_EQ(prefixes->copies.size(), 2U);
  EXPECT_EQ(prefixes->copies[0].share.bytes(), 1000);
  EXPECT_EQ(prefixes->copies[1].share.bytes(), 1000 + 8 * 1000);
  EXPECT_EQ(h.engine->budget().sealed_bytes(), 32'000);
  EXPECT_EQ(h.engine->budget().used(), 32'000 + 1000 + 9000);
  prefixes->copies.clear();
  EXPECT_EQ(h.engine->budget().used(), 0);
}

}  // namespace
}  // namespace tvq
