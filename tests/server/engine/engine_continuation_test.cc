// Requests that begin where another ended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>

#include "tests/server/engine/session_calls.h"

namespace tvq {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Makes the model's most likely continuation of a context.
std::vector<int32_t> Greedy(const FakeModel& model, std::vector<int32_t> context, int count) {
  const size_t begin = context.size();
  for (int i = 0; i < count; ++i) {
    int32_t best = 0;
    for (int32_t id = 1; id < kVocab; ++id) {
      if (model.Logprob(context, id) > model.Logprob(context, best)) best = id;
    }
    context.push_back(best);
  }
  return {context.begin() + static_cast<std::ptrdiff_t>(begin), context.end()};
}

TEST(EngineContinuationTest, AGenerationGoesOnWhereTheLastEnded) {
  Harness h;
  TestSession session;
  const SamplingParams greedy{.temperature = 0, .max_tokens = 7};
  const auto first = Call(*h.engine, session, Purpose::kGenerate, "once upon", greedy);
  EXPECT_EQ(session.at->pending, std::vector<int32_t>{first->sample().tokens.back()});
  EXPECT_EQ(session.tokens, Joined(Ids("once upon"), first->sample().tokens));
  const std::vector<int32_t> before = Joined(session.tokens, Ids(" a time"));

  const auto second = Call(*h.engine, session, Purpose::kGenerate, " a time", greedy);
  EXPECT_EQ(second->sample().tokens, Greedy(*h.model, before, 7));
  EXPECT_EQ(second->usage().prompt_tokens, 7);
  EXPECT_EQ(second->usage().cached_tokens, 0);
  EXPECT_EQ(h.model->prefilled_tokens, 9 + 1 + 7);  // the pending token with the second prompt
  EXPECT_EQ(h.engine->stats().prefill_tokens_reused, 9 + 6);
}

TEST(EngineContinuationTest, AppendAndScoreFeedEverythingAndLeaveLogits) {
  Harness h;
  TestSession session;
  Call(*h.engine, session, Purpose::kAppend, "0123456789");
  EXPECT_TRUE(session.at->pending.empty());
  EXPECT_EQ(session.at->held.state->position(), 10);
  std::vector<int32_t> context = session.tokens;

  // After an append the first token's log-probability comes from the logits that were kept.
  const auto scored = Call(*h.engine, session, Purpose::kScore, "abc", {.prompt_logprobs = 2});
  EXPECT_EQ(session.at->held.state->position(), 13);
  ASSERT_EQ(scored->prompt().size(), 3u);
  for (const TokenEvent& e : scored->prompt()) {
    EXPECT_FLOAT_EQ(e.token.logprob, h.model->Logprob(context, e.token.id));
    EXPECT_GT(e.token.rank, 0);
    ASSERT_EQ(e.top.size(), 2u);
    EXPECT_FLOAT_EQ(e.top[0].logprob, h.model->Logprob(context, e.top[0].id));
    context.push_back(e.token.id);
  }
  EXPECT_EQ(context, session.tokens);

  // Nothing to feed: the first token is sampled from the logits.
  const int64_t fed = h.model->prefilled_tokens;
  const auto generated = Call(*h.engine, session, Purpose::kGenerate, "",
                              {.temperature = 0, .max_tokens = 3, .prompt_logprobs = 0});
  EXPECT_TRUE(generated->prompt().empty());
  EXPECT_EQ(generated->sample().tokens, Greedy(*h.model, context, 3));
  EXPECT_EQ(h.model->prefilled_tokens, fed);
  context = session.tokens;

  // After a generation it comes from feeding the token that is pending.
  const auto again = Call(*h.engine, session, Purpose::kScore, "x", {.prompt_logprobs = 0});
  ASSERT_EQ(again->prompt().size(), 1u);
  EXPECT_FLOAT_EQ(again->prompt()[0].token.logprob, h.model->Logprob(context, ByteId('x')));
  EXPECT_EQ(again->usage().prompt_tokens, 1);
}

// A call that generates nothing is an append.
TEST(EngineContinuationTest, NoTokensFeedEverythingAndLeaveLogits) {
  Harness h;
  TestSession session;
  const SamplingParams none{.temperature = 0, .max_tokens = 0};
  const SamplingParams greedy{.temperature = 0, .max_tokens = 3};
  Call(*h.engine, session, Purpose::kGenerate, "once", none);
  EXPECT_TRUE(session.at->pending.empty());
  EXPECT_EQ(session.tokens, Ids("once"));
  Call(*h.engine, session, Purpose::kGenerate, "", none);  // nor is there anything to feed
  EXPECT_EQ(session.at->held.state->position(), 4);
  const auto first = Call(*h.engine, session, Purpose::kGenerate, "", greedy);
  EXPECT_EQ(first->sample().tokens, Greedy(*h.model, Ids("once"), 3));
  // What was pending is fed.
  Call(*h.engine, session, Purpose::kGenerate, "", none);
  EXPECT_TRUE(session.at->pending.empty());
  EXPECT_EQ(session.at->held.state->position(), 7);
  const std::vector<int32_t> context = session.tokens;
  const auto second = Call(*h.engine, session, Purpose::kGenerate, "", greedy);
  EXPECT_EQ(second->sample().tokens, Greedy(*h.model, context, 3));
}

TEST(EngineContinuationTest, AScoreThatKeepsNothingDoesNotFeedItsLastToken) {
  Harness h;
  TestSession session;
  Call(*h.engine, session, Purpose::kAppend, "0123456789");
  const auto bits = session.Bits();
  const int64_t fed = h.model->prefilled_tokens;
  for (const std::string_view text : {"x", "xyz"}) {
    auto sink = std::make_shared<RecordingSink>();
    Request request = On(session, sink, Purpose::kScore, text);
    request.keep = false;
    ASSERT_TRUE(h.engine->Submit(request).ok());
    ASSERT_TRUE(sink->Wait().ok());
    ASSERT_EQ(sink->prompt().size(), text.size());
    EXPECT_FLOAT_EQ(sink->prompt()[0].token.logprob, h.model->Logprob(session.tokens, ByteId('x')));
    EXPECT_FALSE(sink->TakeKept());
  }
  EXPECT_EQ(h.model->prefilled_tokens, fed + 2);
  EXPECT_EQ(session.Bits(), bits);
}

TEST(EngineContinuationTest, PromptLogprobsPenaltiesAndEchoAreOfTheOwnPromptOnly) {
  Harness h;
  TestSession session;
  Call(*h.engine, session, Purpose::kGenerate, "aaaaaaaa", {.temperature = 0, .max_tokens = 4});
  const std::vector<int32_t> context = session.tokens;
  const auto sink = Call(*h.engine, session, Purpose::kGenerate, "bc",
                         {.temperature = 0,
                          .repetition_penalty = 50,
                          .max_tokens = 3,
                          .prompt_logprobs = 0,
                          .echo = true});
  ASSERT_EQ(sink->prompt().size(), 2u);
  EXPECT_FLOAT_EQ(sink->prompt()[0].token.logprob, h.model->Logprob(context, ByteId('b')));
  EXPECT_EQ(sink->sample().text.substr(0, 2), "bc");
  EXPECT_EQ(sink->sample().text.size(), 5u);
  // Penalized are only its own prompt and output.
  std::vector<int32_t> whole = Joined(context, Ids("bc"));
  std::vector<int32_t> expected;
  for (int i = 0; i < 3; ++i) {
    int32_t best = -1;
    double best_value = -1e30;
    for (int32_t id = 0; id < kVocab; ++id) {
      // The fake's logits are positive for letters, so that a penalized one falls to nearly 0.
      const bool penalized = id == ByteId('b') || id == ByteId('c') ||
                             std::count(expected.begin(), expected.end(), id) > 0;
      if (penalized) continue;
      const double value = h.model->Logprob(whole, id);
      if (value > best_value) best = id, best_value = value;
    }
    expected.push_back(best);
    whole.push_back(best);
  }
  EXPECT_EQ(sink->sample().tokens, expected);
}

TEST(EngineContinuationTest, AnEndingIdIsNoPartOfTheContextAStopStringIs) {
  Harness h({.eos_bias = 13});
  TestSession session;
  const auto ended =
      Call(*h.engine, session, Purpose::kGenerate, "end", {.seed = 5, .max_tokens = 1000});
  EXPECT_EQ(ended->sample().finish, FinishReason::kStop);
  EXPECT_FALSE(ended->sample().stop_token) << "an end of sequence is no id of the request";
  EXPECT_EQ(session.tokens, Joined(Ids("end"), ended->sample().tokens));
  EXPECT_TRUE(session.at->pending.empty());
  // The logits that it was sampled from: whoever goes on may choose something else.
  const std::vector<int32_t> context = session.tokens;
  const auto score = Call(*h.engine, session, Purpose::kScore, "q", {.prompt_logprobs = 0});
  EXPECT_FLOAT_EQ(score->prompt()[0].token.logprob, h.model->Logprob(context, ByteId('q')));

  const auto whole = Generate(*h.engine, "stop", {.seed = 9, .ignore_eos = true, .max_tokens = 30});
  const std::string stop = whole->sample().text.substr(10, 4);
  TestSession stopped;
  const auto sink = Call(*h.engine, stopped, Purpose::kGenerate, "stop",
                         {.seed = 9, .stop = {stop}, .ignore_eos = true, .max_tokens = 30});
  EXPECT_EQ(sink->sample().stop_string, stop);
  EXPECT_EQ(stopped.tokens, Joined(Ids("stop"), sink->sample().tokens));
  EXPECT_EQ(stopped.at->pending.size(), 1u);
}

// The last bytes of the text that these tokens are.
std::string TailOf(const std::string& text) {
  return text.substr(text.size() - std::min(text.size(), AnswerEnd::kMaxTail));
}

TEST(EngineContinuationTest, TellsHowAnAnswerEnded) {
  Harness h({.eos_bias = 13});
  TestSession session;
  Call(*h.engine, session, Purpose::kAppend, "nothing was generated");
  EXPECT_FALSE(session.at->answer_end);
  Call(*h.engine, session, Purpose::kScore, " yet");
  EXPECT_FALSE(session.at->answer_end);

  const auto full = Call(*h.engine, session, Purpose::kGenerate, "",
                         {.seed = 9, .ignore_eos = true, .max_tokens = 30});
  const std::string text = full->sample().text;
  EXPECT_EQ(session.at->answer_end, (AnswerEnd{text, 0}));

  const auto ended =
      Call(*h.engine, session, Purpose::kGenerate, "", {.seed = 5, .max_tokens = 1000});
  EXPECT_EQ(ended->sample().finish, FinishReason::kStop);
  EXPECT_FALSE(ended->sample().stop_token) << "an end of sequence is no id of the request";
  EXPECT_EQ(session.at->answer_end, (AnswerEnd{TailOf(ended->sample().text), 0}));

  for (const bool include : {false, true}) {
    TestSession stopped;
    Call(*h.engine, stopped, Purpose::kAppend, "nothing was generated");
    Call(*h.engine, stopped, Purpose::kScore, " yet");
    const std::string stop = text.substr(10, 4);
    Call(*h.engine, stopped, Purpose::kGenerate, "",
         {.seed = 9,
          .stop = {stop},
          .include_stop_str_in_output = include,
          .ignore_eos = true,
          .max_tokens = 30});
    EXPECT_EQ(stopped.at->answer_end, (AnswerEnd{text.substr(0, 14), 4})) << "shown or not";
    Call(*h.engine, stopped, Purpose::kAppend, "abc");
    Call(*h.engine, stopped, Purpose::kScore, "d");
    Call(*h.engine, stopped, Purpose::kGenerate, "e", {.max_tokens = 0});
    EXPECT_EQ(stopped.at->answer_end, (AnswerEnd{text.substr(0, 14) + "abcde", 9, true}));
    Call(*h.engine, stopped, Purpose::kAppend, std::string(100, 'x') + "y");
    EXPECT_EQ(stopped.at->answer_end, (AnswerEnd{std::string(AnswerEnd::kMaxTail - 1, 'x') + "y",
                                                 AnswerEnd::kMaxTail, true}));
  }
}

TEST(EngineContinuationTest, WhatACancelledAnswerHoldsBackIsPartOfIt) {
  Harness h;
  TestSession session;
  auto sink = std::make_shared<RecordingSink>();
  SamplingParams sampling = Endless();
  sampling.allowed_token_ids = {ByteId('a')};
  sampling.stop = {std::string(1023, 'a') + "b"};
  Request request = On(session, sink, Purpose::kGenerate, "x", sampling);
  request.keep_on_cancel = true;
  const auto handle = h.engine->Submit(request);
  ASSERT_TRUE(handle.ok()) << handle.status();
  while (sink->deltas() < 3) std::this_thread::yield();
  h.engine->Cancel(*handle);
  EXPECT_TRUE(absl::IsCancelled(sink->Wait()));
  const auto kept = sink->TakeKept();
  ASSERT_TRUE(kept && kept->answer_end);
  ASSERT_GE(kept->tokens.size(), 4U);
  const std::string answer(kept->tokens.size() - 1, 'a');
  EXPECT_EQ(sink->sample().text.size(), answer.size() - std::min<size_t>(answer.size(), 1023));
  EXPECT_EQ(kept->tokens, Joined(Ids("x"), Ids(answer)));
  EXPECT_EQ(kept->answer_end, (AnswerEnd{TailOf(answer), 0}));
}

class StartSink : public RecordingSink {
 public:
  explicit StartSink(std::weak_ptr<StateSource> source) : source_(std::move(source)) {}
  void OnStart() override {
    gone = source_.expired();
    RecordingSink::OnStart();
  }
  bool gone = false;

 private:
  const std::weak_ptr<StateSource> source_;
};

TEST(EngineContinuationTest, LetsGoOfItsSourceBeforeItComputes) {
  Harness h;
  TestSession session;
  Call(*h.engine, session, Purpose::kAppend, "uploaded");
  std::optional<StartPoint> start = session.Start();
  const auto sink = std::make_shared<StartSink>(start->source);
  Request request = On(session, sink, Purpose::kGenerate, "!");
  request.start = std::move(start);
  ASSERT_TRUE(h.engine->Submit(std::move(request)).ok());
  ASSERT_TRUE(sink->Wait().ok());
  EXPECT_TRUE(sink->gone);
}

TEST(EngineContinuationTest, SeveralSamplesMayStartFromOneState) {
  Harness h;
  TestSession session;
  Call(*h.engine, session, Purpose::kAppend, "fork here");
  for (const std::string_view prompt : {"", "!"}) {
    auto sink = std::make_shared<RecordingSink>();
    Request request = On(session, sink, Purpose::kGenerate, prompt, {.seed = 3, .n = 4});
    request.keep = false;
    ASSERT_TRUE(h.engine->Submit(request).ok());
    ASSERT_TRUE(sink->Wait().ok());
    const auto expected =
        Generate(*h.engine, "fork here" + std::string(prompt), {.seed = 3, .n = 4});
    EXPECT_EQ(sink->samples(), expected->samples());
  }
}

TEST(EngineContinuationTest, NothingIsKeptOfLogitsThatAreNotFinite) {
  Harness h({.poison = ByteId('!')});
  TestSession session;
  Call(*h.engine, session, Purpose::kAppend, "fine");
  for (const Purpose purpose : {Purpose::kAppend, Purpose::kScore, Purpose::kGenerate}) {
    auto sink = std::make_shared<RecordingSink>();
    ASSERT_TRUE(h.engine->Submit(On(session, sink, purpose, "bad!")).ok());
    EXPECT_TRUE(absl::IsInternal(sink->Wait()));
    EXPECT_FALSE(sink->TakeKept());
  }
  EXPECT_EQ(h.model->live_states, 1);
  EXPECT_EQ(h.engine->budget().used(), 1000);
  Call(*h.engine, session, Purpose::kAppend, "still fine");
}

TEST(EngineContinuationTest, WhatIsWrongWithAStartIsSaid) {
  Harness h({.max_position = 30});
  TestSession session;
  Call(*h.engine, session, Purpose::kAppend, "0123456789");
  const auto message = [&](Purpose purpose, std::string_view prompt, SamplingParams sampling,
                           const std::function<void(Request&)>& change = {}) {
    Request request =
        On(session, std::make_shared<RecordingSink>(), purpose, prompt, std::move(sampling));
    if (change) change(request);
    const absl::Status status = h.engine->Submit(request).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(message(Purpose::kGenerate, "0123", {.max_tokens = 17}),
              HasSubstr("prompt: has 4 tokens, the context before it has 10, and max_tokens is 17; "
                        "together they must be at most 30"));
  EXPECT_THAT(message(Purpose::kAppend, "012345678901234567890", {}),
              HasSubstr("has 21 tokens, the context before it has 10; together"));
  EXPECT_THAT(message(Purpose::kGenerate, "x", {.n = 2}), HasSubstr("n: value is 2, must be 1"));
  EXPECT_THAT(message(Purpose::kScore, "", {}), HasSubstr("prompt: is empty"));
  EXPECT_THAT(message(Purpose::kGenerate, "", {}, [](Request& r) { r.start->logits.reset(); }),
              HasSubstr("prompt: is empty"));
  EXPECT_THAT(message(Purpose::kScore, "x", {}, [](Request& r) { r.start->logits.reset(); }),
              HasSubstr("start.logits: are missing"));
  EXPECT_THAT(message(Purpose::kAppend, "x", {}, [](Request& r) { r.start->pending = {kVocab}; }),
              HasSubstr("start.pending[0]: token id is 259"));
  EXPECT_THAT(message(Purpose::kAppend, "x", {}, [](Request& r) { r.start->source.reset(); }),
              HasSubstr("start.position: value is 10"));
  EXPECT_THAT(message(Purpose::kAppend, "x", {}, [](Request& r) { r.start->prompt_tokens = 1; }),
              HasSubstr("start.prompt_tokens: value is 1"));
  EXPECT_THAT(message(Purpose::kAppend, "xxxxxxxxx", {}, [](Request& r) { r.prefix_marks = {8}; }),
              HasSubstr("prefix_marks: value is 8"));
}

class KeptPrefixes : public PrefixSink {
 public:
  void OnPrefix(int64_t prompt_tokens, HeldState copy) override {
    EXPECT_EQ(copy.state->position(), prompt_tokens);
    EXPECT_EQ(copy.share.bytes(), copy.state->bytes());
    lengths.push_back(prompt_tokens);
    states.push_back(std::move(copy));
  }
  std::vector<int64_t> lengths;
  std::vector<HeldState> states;
};

TEST(EnginePrefixTest, CopiesAreGivenAtTheMarksAndStartOthers) {
  Harness h({}, {.max_num_seqs = 4, .state_memory_bytes = 4000});
  const std::string prompt = "the first sixteen of these and some more";
  const auto expected = Generate(*h.engine, prompt, {.seed = 1});
  const int64_t whole = h.model->prefilled_tokens;

  const auto prefixes = std::make_shared<KeptPrefixes>();
  auto sink = std::make_shared<RecordingSink>();
  Request giving = Ask(sink, prompt, {.seed = 1});
  giving.prefix_marks = {8, 16, 24, 40};
  giving.prefixes = prefixes;
  ASSERT_TRUE(h.engine->Submit(giving).ok());
  ASSERT_TRUE(sink->Wait().ok());
  EXPECT_EQ(sink->sample(), expected->sample());
  // The fourth did not fit beside the request's own state.
  EXPECT_THAT(prefixes->lengths, ElementsAre(8, 16, 24));
  EXPECT_EQ(h.engine->budget().used(), 3000);
  EXPECT_FALSE(h.engine->budget().shortage());

  auto hit = std::make_shared<RecordingSink>();
  Request request = Ask(hit, prompt, {.seed = 1, .echo = true});
  const std::shared_ptr<const State> kept(prefixes, prefixes->states[1].state.get());
  request.start =
      StartPoint{.source = std::make_shared<CopySource>(kept), .position = 16, .prompt_tokens = 16};
  const int64_t before = h.model->prefilled_tokens;
  ASSERT_TRUE(h.engine->Submit(request).ok());
  ASSERT_TRUE(hit->Wait().ok());
  EXPECT_EQ(hit->sample().tokens, expected->sample().tokens);
  EXPECT_EQ(hit->sample().text, prompt + expected->sample().text);
  EXPECT_EQ(hit->usage().prompt_tokens, 40);
  EXPECT_EQ(hit->usage().cached_tokens, 16);
  EXPECT_EQ(h.model->prefilled_tokens, before + whole - 16);
  EXPECT_EQ(h.engine->stats().prefill_tokens_reused, 16);
  prefixes->states.clear();
}

}  // namespace
}  // namespace tvq
