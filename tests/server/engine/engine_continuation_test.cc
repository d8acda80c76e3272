// Requests that begin where another ended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "tests/server/engine/harness.h"
#include "tests/server/engine/test_session.h"

namespace tvq {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int32_t kForever = 1'000'000'000;

Request On(const TestSession& session, std::shared_ptr<RecordingSink> sink, Purpose purpose,
           std::string_view prompt, SamplingParams sampling = {}) {
  Request request = Ask(std::move(sink), prompt, std::move(sampling));
  request.purpose = purpose;
  request.start = session.Start();
  request.keep = true;
  return request;
}

// Runs a call on the session and commits it.
std::shared_ptr<RecordingSink> Call(Engine& engine, TestSession& session, Purpose purpose,
                                    std::string_view prompt, SamplingParams sampling = {}) {
  auto sink = std::make_shared<RecordingSink>();
  const auto handle = engine.Submit(On(session, sink, purpose, prompt, std::move(sampling)));
  EXPECT_TRUE(handle.ok()) << handle.status();
  if (!handle.ok()) return sink;
  EXPECT_TRUE(sink->Wait().ok()) << sink->Wait();
  std::optional<Continuation> kept = sink->TakeKept();
  EXPECT_TRUE(kept);
  if (kept) session.Commit(*std::move(kept));
  return sink;
}

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

std::vector<int32_t> Joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
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
  EXPECT_EQ(ended->sample().stop_token, kEos);
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

// Hands over when it is told to.
class ManualSource : public StateSource {
 public:
  void Fill(HeldState blank, Done done) override {
    const std::lock_guard lock(mutex_);
    blank_ = std::move(blank);
    done_ = std::move(done);
    changed_.notify_all();
  }
  void WaitAsked() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_ != nullptr; });
  }
  void Finish() { done_(std::move(blank_)); }
  void Fail(const absl::Status& status) { done_(status); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  HeldState blank_;
  Done done_;
};

Request Waiting(std::shared_ptr<RecordingSink> sink, std::shared_ptr<StateSource> source) {
  Request request = Ask(std::move(sink), "x", {.max_tokens = 3});
  request.start = StartPoint{.source = std::move(source), .position = 5};
  return request;
}

TEST(EngineFillingTest, OthersGoOnAndTheRequestHasItsPlaceAndShare) {
  Harness h({}, {.max_num_seqs = 2, .state_memory_bytes = 2000});
  auto source = std::make_shared<ManualSource>();
  auto sink = std::make_shared<RecordingSink>();
  ASSERT_TRUE(h.engine->Submit(Waiting(sink, source)).ok());
  source->WaitAsked();
  Generate(*h.engine, "beside it", {.max_tokens = 30});
  EXPECT_FALSE(sink->started());
  const EngineStats stats = h.engine->stats();
  EXPECT_EQ(stats.requests_running, 1);
  EXPECT_EQ(stats.sequences_running, 1);
  EXPECT_EQ(stats.state_bytes_reserved, 1000);
  EXPECT_EQ(h.engine->budget().used(), 1000);
  source->Fail(absl::DataLossError("corrupt"));
  EXPECT_EQ(sink->Wait(), absl::DataLossError("corrupt"));
  EXPECT_FALSE(sink->started());
}

TEST(EngineFillingTest, AStateOfAnotherPositionIsRefused) {
  Harness h;
  auto source = std::make_shared<ManualSource>();
  auto sink = std::make_shared<RecordingSink>();
  ASSERT_TRUE(h.engine->Submit(Waiting(sink, source)).ok());
  source->WaitAsked();
  source->Finish();
  EXPECT_THAT(std::string(sink->Wait().message()), HasSubstr("holds 0 tokens, must hold 5"));
}

TEST(EngineFillingTest, CancelAndDeadlineEndItAtOnceAndTheStateComesBackLater) {
  Harness h({}, {.max_num_seqs = 1, .state_memory_bytes = 2000});
  for (const bool cancel : {true, false}) {
    auto source = std::make_shared<ManualSource>();
    auto sink = std::make_shared<RecordingSink>();
    Request request = Waiting(sink, source);
    request.keep = request.keep_on_cancel = true;
    if (!cancel) request.deadline = std::chrono::steady_clock::now() + milliseconds(20);
    const auto handle = h.engine->Submit(request);
    source->WaitAsked();
    if (cancel) h.engine->Cancel(*handle);
    const absl::Status status = sink->Wait();
    EXPECT_TRUE(cancel ? absl::IsCancelled(status) : absl::IsDeadlineExceeded(status)) << status;
    EXPECT_FALSE(sink->TakeKept());
    EXPECT_EQ(h.model->live_states, 1) << "whoever fills it still has it";
    EXPECT_EQ(h.engine->budget().used(), 1000);
    Generate(*h.engine, "its place is free");
    source->Finish();
    Generate(*h.engine, "makes the loop take the news");
    EXPECT_EQ(h.model->live_states, 0);
    EXPECT_EQ(h.engine->budget().used(), 0);
  }
}

TEST(EngineFillingTest, TheDestructorWaitsForWhoeverFills) {
  auto source = std::make_shared<ManualSource>();
  auto sink = std::make_shared<RecordingSink>();
  Worker worker;
  {
    Harness h;
    ASSERT_TRUE(h.engine->Submit(Waiting(sink, source)).ok());
    source->WaitAsked();
    worker.Post([&] {
      EXPECT_TRUE(absl::IsUnavailable(sink->Wait()));
      std::this_thread::sleep_for(milliseconds(20));
      source->Finish();
    });
  }
}

TEST(EngineCancelTest, KeepsWhatWasSaidOnlyWhenAsked) {
  Harness h;
  for (const bool keep_on_cancel : {false, true}) {
    TestSession session;
    Call(*h.engine, session, Purpose::kAppend, "say ");
    const std::vector<int32_t> before = session.tokens;
    auto sink = std::make_shared<RecordingSink>();
    Request request = On(session, sink, Purpose::kGenerate, "on",
                         {.temperature = 0, .ignore_eos = true, .max_tokens = kForever});
    request.keep_on_cancel = keep_on_cancel;
    const auto handle = h.engine->Submit(request);
    sink->WaitDeltas(5);
    h.engine->Cancel(*handle);
    EXPECT_TRUE(absl::IsCancelled(sink->Wait()));
    std::optional<Continuation> kept = sink->TakeKept();
    ASSERT_EQ(kept.has_value(), keep_on_cancel);
    if (!kept) continue;
    session.Commit(*std::move(kept));
    EXPECT_EQ(session.tokens, Joined(Joined(before, Ids("on")), sink->sample().tokens));
    const std::vector<int32_t> context = session.tokens;
    const auto next = Call(*h.engine, session, Purpose::kScore, "z", {.prompt_logprobs = 0});
    EXPECT_FLOAT_EQ(next->prompt()[0].token.logprob, h.model->Logprob(context, ByteId('z')));
  }
}

TEST(EngineCancelTest, KeepsNothingOfWhatEndedForAnotherReason) {
  Harness h({}, {.max_num_batched_tokens = 32,
                 .paused_timeout = milliseconds(20),
                 .state_memory_bytes = 1'000'000});
  const auto endless = [&](const std::shared_ptr<RecordingSink>& sink) {
    Request request = Ask(sink, "on", {.ignore_eos = true, .max_tokens = kForever});
    request.keep = request.keep_on_cancel = true;
    return request;
  };
  auto late = std::make_shared<RecordingSink>();
  Request request = endless(late);
  request.deadline = std::chrono::steady_clock::now() + milliseconds(50);
  ASSERT_TRUE(h.engine->Submit(request).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(late->Wait()));
  EXPECT_GT(late->sample().tokens.size(), 0U);
  EXPECT_FALSE(late->TakeKept());

  auto stalled = std::make_shared<RecordingSink>();
  stalled->on_delta = [&](const Delta&) { stalled->wants_more = false; };
  ASSERT_TRUE(h.engine->Submit(endless(stalled)).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(stalled->Wait()));
  EXPECT_FALSE(stalled->TakeKept());

  auto stopped = std::make_shared<RecordingSink>();
  ASSERT_TRUE(h.engine->Submit(endless(stopped)).ok());
  stopped->WaitDeltas(5);
  EXPECT_FALSE(h.engine->Drain(std::chrono::steady_clock::now()));
  EXPECT_TRUE(absl::IsUnavailable(stopped->Wait()));
  EXPECT_FALSE(stopped->TakeKept());
}

TEST(EngineCancelTest, AtRandomPointsASessionIsWholeEitherWay) {
  Harness h({}, {.max_num_seqs = 6, .max_num_batched_tokens = 16, .state_memory_bytes = 100'000});
  std::mt19937 random(3);
  Worker worker;
  for (int round = 0; round < 300; ++round) {
    TestSession session;
    Call(*h.engine, session, round % 2 == 0 ? Purpose::kAppend : Purpose::kGenerate, "begin");
    const auto bits = session.Bits();
    auto sink = std::make_shared<RecordingSink>();
    Request request = On(session, sink, Purpose::kGenerate, std::string(random() % 40, 'p'),
                         {.temperature = 0, .ignore_eos = true, .max_tokens = kForever});
    request.start = session.Start(&worker, std::chrono::microseconds(random() % 100));
    request.keep_on_cancel = random() % 2 == 0;
    const auto handle = h.engine->Submit(request);
    ASSERT_TRUE(handle.ok()) << handle.status();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
    h.engine->Cancel(*handle);
    EXPECT_TRUE(absl::IsCancelled(sink->Wait()));
    EXPECT_EQ(session.Bits(), bits);
    if (std::optional<Continuation> kept = sink->TakeKept()) {
      EXPECT_TRUE(request.keep_on_cancel);
      const std::vector<int32_t> whole =
          Joined(Joined(session.tokens, request.prompt), sink->sample().tokens);
      session.Commit(*std::move(kept));
      EXPECT_EQ(session.tokens, whole);
    }
    const std::vector<int32_t> context = session.tokens;
    const auto next = Call(*h.engine, session, Purpose::kScore, "z", {.prompt_logprobs = 0});
    ASSERT_FLOAT_EQ(next->prompt()[0].token.logprob, h.model->Logprob(context, ByteId('z')));
  }
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

TEST(EngineBudgetTest, AShortageIsReportedAndReliefLetsTheRequestRun) {
  Harness h({}, {.max_num_seqs = 4, .state_memory_bytes = 3000});
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int64_t> wanted;
  h.engine->budget().OnShortage([&](int64_t bytes) {
    const std::lock_guard lock(mutex);
    wanted.push_back(bytes);
    changed.notify_all();
  });
  std::optional<StateBudget::Share> kept = h.engine->budget().TryReserve(2500);
  ASSERT_TRUE(kept);
  auto sink = std::make_shared<RecordingSink>();
  auto behind = std::make_shared<RecordingSink>();
  ASSERT_TRUE(h.engine->Submit(Ask(sink, "waits", {.n = 2})).ok());
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return !wanted.empty(); });
    EXPECT_THAT(wanted, ElementsAre(2000));
  }
  ASSERT_TRUE(h.engine->Submit(Ask(behind, "is not let past")).ok());
  h.engine->Wake();
  kept->Shrink(1900);
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return wanted.size() > 1; });
    EXPECT_THAT(wanted, ElementsAre(2000, 2000));
  }
  EXPECT_FALSE(sink->started() || behind->started());
  kept.reset();
  EXPECT_TRUE(sink->Wait().ok());
  EXPECT_TRUE(behind->Wait().ok());
  h.engine->budget().OnShortage({});
}

}  // namespace
}  // namespace tvq
