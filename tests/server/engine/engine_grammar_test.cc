// What samples follow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "base/refusal.h"
#include "models/runtime/text/grammars.h"
#include "tests/server/engine/session_calls.h"
#include "tests/server/message.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

class EngineGrammarTest : public ::testing::Test {
 protected:
  std::shared_ptr<const Grammar> Regex(const std::string& regex) {
    auto grammar = grammars_.Get(GrammarLanguage::kRegex, regex);
    EXPECT_TRUE(grammar.ok()) << grammar.status();
    return *grammar;
  }

  FakeTokenizer tokenizer_;
  Grammars grammars_{tokenizer_, {kEos}};
};

TEST_F(EngineGrammarTest, ASampleFollowsAndEnds) {
  Harness h;
  for (const uint64_t seed : {1, 2, 3, 4}) {
    const auto sample = Generate(*h.engine, "number",
                                 {.seed = seed, .max_tokens = 50, .grammar = Regex("-?[0-9]{3,5}")})
                            ->sample();
    EXPECT_TRUE(std::regex_match(sample.text, std::regex("-?[0-9]{3,5}"))) << sample.text;
    EXPECT_EQ(sample.finish, FinishReason::kStop);
  }
  EXPECT_EQ(h.model->live_states, 0);
}

TEST_F(EngineGrammarTest, EachSampleFollowsForItself) {
  Harness h;
  const SamplingParams params = {
      .seed = 5, .max_tokens = 50, .n = 8, .grammar = Regex("a(b|c)(d|e)(f|g)(h|i)")};
  const auto first = Generate(*h.engine, "x", params);
  const auto again = Generate(*h.engine, "x", params);
  bool differ = false;
  for (int32_t i = 0; i < 8; ++i) {
    EXPECT_TRUE(std::regex_match(first->samples()[i].text, std::regex("a[bc][de][fg][hi]")));
    EXPECT_EQ(first->samples()[i], again->samples()[i]) << "a seed fixes the tokens";
    differ |= !(first->samples()[i] == first->samples()[0]);
  }
  EXPECT_TRUE(differ);
}

TEST_F(EngineGrammarTest, ItEndsBeforeMinTokensWhereNothingMayFollow) {
  Harness h;
  const auto sample =
      Generate(*h.engine, "x", {.max_tokens = 50, .min_tokens = 20, .grammar = Regex("ab*c?d")})
          ->sample();
  EXPECT_TRUE(std::regex_match(sample.text, std::regex("ab*c?d"))) << sample.text;
  EXPECT_EQ(sample.finish, FinishReason::kStop);
  // Where more may follow, more does.
  const auto longer =
      Generate(*h.engine, "x", {.max_tokens = 50, .min_tokens = 20, .grammar = Regex("a+")})
          ->sample();
  EXPECT_GE(longer.tokens.size(), 20u);
}

TEST_F(EngineGrammarTest, MaxTokensEndItWithin) {
  Harness h;
  const auto sample =
      Generate(*h.engine, "x", {.max_tokens = 4, .grammar = Regex("[0-9]{9}")})->sample();
  EXPECT_EQ(sample.tokens.size(), 4u);
  EXPECT_EQ(sample.finish, FinishReason::kLength);
}

TEST_F(EngineGrammarTest, NeighboursAreFree) {
  Harness h;
  const auto alone = Generate(*h.engine, "free", {.seed = 9, .max_tokens = 30});
  auto bound = NewSink();
  auto free = NewSink();
  ASSERT_TRUE(
      h.engine->Submit(Ask(bound, "bound", {.max_tokens = 30, .grammar = Regex("[0-9]+")})).ok());
  ASSERT_TRUE(h.engine->Submit(Ask(free, "free", {.seed = 9, .max_tokens = 30})).ok());
  EXPECT_TRUE(bound->Wait().ok());
  EXPECT_TRUE(free->Wait().ok());
  EXPECT_EQ(free->sample(), alone->sample());
}

TEST_F(EngineGrammarTest, DraftsDoNotChangeWhatFollows) {
  Harness plain;
  Harness drafts({.draft_rows = 8});
  const SamplingParams params = {.seed = 3, .max_tokens = 40, .grammar = Regex("(ab|ba)+")};
  EXPECT_EQ(Generate(*plain.engine, "abababab", params)->sample(),
            Generate(*drafts.engine, "abababab", params)->sample());
}

// An error of that request alone.
TEST_F(EngineGrammarTest, AModelThatCannotGoOnFails) {
  Harness h;
  const std::vector<int32_t> ends = {kEos};
  class NoC : public FakeTokenizer {
    std::string_view TokenBytes(int32_t id) const override {
      return id == ByteId('c') ? "" : FakeTokenizer::TokenBytes(id);
    }
  } tokenizer;
  const auto grammar =
      *GrammarVocabulary::Make(tokenizer, ends)->Read(GrammarLanguage::kRegex, "(a|b)c");
  auto sink = NewSink();
  ASSERT_TRUE(h.engine->Submit(Ask(sink, "x", {.max_tokens = 9, .n = 3, .grammar = grammar})).ok());
  const absl::Status status = sink->Wait();
  EXPECT_EQ(RefusalOf(status).reason, Reason::kValueInvalid) << status;
  EXPECT_THAT(Message(status), HasSubstr("no token of the model"));
  const auto fine = Generate(*h.engine, "x", {.max_tokens = 9, .grammar = Regex("ab")});
  EXPECT_EQ(fine->sample().text, "ab");
  EXPECT_EQ(h.model->live_states, 0);
}

TEST_F(EngineGrammarTest, NothingIsAText) {
  Harness h;
  const auto sample =
      Generate(*h.engine, "x", {.max_tokens = 9, .min_tokens = 5, .grammar = Regex("")})->sample();
  EXPECT_EQ(sample.text, "");
  EXPECT_EQ(sample.finish, FinishReason::kStop);
}

// A step that does not wait: samples are taken up when it is known what may follow.
TEST_F(EngineGrammarTest, WhatTakesLongHoldsUpNobody) {
  EngineOptions impatient = SmallOptions();
  impatient.grammar_wait = std::chrono::milliseconds(0);
  Harness waiting, not_waiting({}, impatient);
  const SamplingParams params = {
      .seed = 4, .max_tokens = 30, .n = 5, .grammar = Regex("(a|bc|def)+")};
  auto free = NewSink();
  ASSERT_TRUE(not_waiting.engine->Submit(Ask(free, "free", {.seed = 9, .max_tokens = 60})).ok());
  const auto want = Generate(*waiting.engine, "x", params);
  const auto got = Generate(*not_waiting.engine, "x", params);
  for (int32_t i = 0; i < 5; ++i) EXPECT_EQ(got->samples()[i], want->samples()[i]) << i;
  EXPECT_TRUE(free->Wait().ok());
  EXPECT_EQ(free->sample(),
            Generate(*waiting.engine, "free", {.seed = 9, .max_tokens = 60})->sample());
}

// Also if its next token waits for the grammar.
TEST_F(EngineGrammarTest, WhatWasSaidIsKeptOnCancel) {
  EngineOptions impatient = SmallOptions();
  impatient.grammar_wait = std::chrono::milliseconds(0);
  Harness h({}, impatient);
  for (int i = 0; i < 20; ++i) {
    TestSession session;
    Call(*h.engine, session, Purpose::kAppend, "say ");
    const std::vector<int32_t> before = session.tokens;
    auto sink = NewSink();
    Request request = On(session, sink, Purpose::kGenerate, "on",
                         {.max_tokens = kForever, .grammar = Regex("(a|b)+c{9}")});
    request.keep_on_cancel = true;
    const auto handle = h.engine->Submit(request);
    ASSERT_TRUE(handle.ok()) << handle.status();
    sink->WaitDeltas(3);
    h.engine->Cancel(*handle);
    if (sink->Wait().ok()) continue;  // it had ended
    std::optional<Continuation> kept = sink->TakeKept();
    ASSERT_TRUE(kept);
    session.Commit(*std::move(kept));
    EXPECT_EQ(session.tokens, Joined(Joined(before, Ids("on")), sink->sample().tokens));
    const std::vector<int32_t> context = session.tokens;
    const auto next = Call(*h.engine, session, Purpose::kScore, "z", {.prompt_logprobs = 0});
    EXPECT_FLOAT_EQ(next->prompt()[0].token.logprob, h.model->Logprob(context, ByteId('z')));
  }
}

TEST_F(EngineGrammarTest, ACancelledRequestLeavesNothing) {
  Harness h;
  auto sink = NewSink();
  const auto handle =
      h.engine->Submit(Ask(sink, "x", {.max_tokens = kForever, .grammar = Regex("(a|b)+c{9}")}));
  ASSERT_TRUE(handle.ok());
  sink->WaitDeltas(2);
  h.engine->Cancel(*handle);
  sink->Wait().IgnoreError();
  EXPECT_EQ(h.model->live_states, 0);
}

}  // namespace
}  // namespace tvq
