// Beginnings and ends: admission, queue, cancellation, deadlines, slow readers, errors, drain.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "tests/server/engine/harness.h"

namespace tvq {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

SteadyTime In(milliseconds time) { return std::chrono::steady_clock::now() + time; }

std::shared_ptr<RecordingSink> Sink() { return std::make_shared<RecordingSink>(); }

// Holds the loop in its first model call until opened.
class Gate {
 public:
  std::function<absl::Status(std::string_view)> Hook() {
    return [this](std::string_view) {
      std::unique_lock lock(mutex_);
      entered_ = true;
      changed_.notify_all();
      changed_.wait(lock, [this] { return open_; });
      return absl::OkStatus();
    };
  }
  void WaitEntered() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return entered_; });
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool entered_ = false;
  bool open_ = false;
};

constexpr int32_t kForever = 1'000'000'000;
SamplingParams Endless() { return {.ignore_eos = true, .max_tokens = kForever}; }

TEST(EngineCreateTest, NamesTheOptionThatIsWrong) {
  const auto model = std::make_shared<FakeModel>();
  const auto message = [](const absl::StatusOr<std::unique_ptr<Engine>>& e) {
    return std::string(e.status().message());
  };
  EXPECT_THAT(message(Engine::Create({{"m", model}}, {.max_num_seqs = 0})),
              HasSubstr("max_num_seqs: value is 0, must be at least 1"));
  EXPECT_THAT(message(Engine::Create({}, {})), HasSubstr("models"));
  EXPECT_THAT(message(Engine::Create({{"m", model}, {"m", model}}, {})), HasSubstr("used twice"));
  EXPECT_THAT(message(Engine::Create({{"m", model, 0}}, {})), HasSubstr("weight of \"m\" is 0"));
  EXPECT_THAT(message(Engine::Create({{"m", model}}, {.state_memory_bytes = 999})),
              HasSubstr("a state takes 1000 bytes, the budget of all states is 999 bytes"));
  EXPECT_TRUE(Engine::Create({{"m", model}}, {}).ok()) << "the default budget";
}

TEST(EngineSubmitTest, RejectsWithTheRightStatus) {
  Harness h({}, {.max_num_seqs = 4, .state_memory_bytes = 4000});
  const auto submit = [&](auto change) {
    Request request = Ask(Sink(), "x");
    change(request);
    return h.engine->Submit(request).status();
  };
  EXPECT_TRUE(absl::IsNotFound(submit([](Request& r) { r.model = "other"; })));
  EXPECT_TRUE(absl::IsInvalidArgument(submit([](Request& r) { r.prompt.clear(); })));
  EXPECT_TRUE(absl::IsInvalidArgument(submit([](Request& r) { r.sampling.n = 5; })));
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(submit([](Request& r) { r.deadline = In(milliseconds(-1)); })));
  EXPECT_TRUE(absl::IsNotFound(h.engine->Capacity("other").status()));
  EXPECT_EQ(h.model->calls, 0);
}

TEST(EngineSubmitTest, ANeedAboveTheWholeBudgetIsNamed) {
  Harness h({.bytes_per_token = 10}, {.state_memory_bytes = 4000});
  const auto status = h.engine->Submit(Ask(Sink(), "12345", {.max_tokens = 95, .n = 3})).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("needs 3 x 2000 bytes"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("budget is 4000 bytes"));
  Generate(*h.engine, "12345", {.max_tokens = 95, .n = 2});
}

TEST(EngineAdmissionTest, RunsOnlyWhatFitsItsBudgetAtTheirLargest) {
  // At most 1500 bytes a request of 10 + 40 tokens: three at a time.
  Harness h({.bytes_per_token = 10}, {.max_num_seqs = 16, .state_memory_bytes = 4999});
  std::atomic<int64_t> most = 0;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 20; ++i) {
    sinks.push_back(Sink());
    sinks.back()->on_delta = [&](const Delta&) {
      most = std::max<int64_t>(most, h.model->live_states);
      EXPECT_LE(h.engine->stats().state_bytes, 4999);
      EXPECT_LE(h.engine->stats().state_bytes_reserved, 4999);
    };
    ASSERT_TRUE(h.engine->Submit(Ask(sinks.back(), "0123456789", {.max_tokens = 40})).ok());
  }
  for (const auto& sink : sinks) EXPECT_TRUE(sink->Wait().ok());
  EXPECT_LE(most, 3);
  EXPECT_GT(most, 1);
}

TEST(EngineAdmissionTest, CapacityOfGrowingStatesIsQuotedForALength) {
  Harness h({.max_position = 100, .bytes_per_token = 10}, {.state_memory_bytes = 5500});
  for (const auto& [tokens, bytes, fit] : {std::tuple(1, 1010, 5), {50, 1500, 3}, {100, 2000, 2}}) {
    const ModelCapacity capacity = *h.engine->Capacity("fake", tokens);
    EXPECT_TRUE(capacity.grows);
    EXPECT_EQ(capacity.tokens, tokens);
    EXPECT_EQ(capacity.bytes_per_session, bytes);
    EXPECT_EQ(capacity.max_sessions, fit);
  }
  EXPECT_EQ(h.engine->Capacity("fake")->tokens, 100) << "the longest";
  for (const int64_t wrong : {-1, 101}) {
    const absl::Status status = h.engine->Capacity("fake", wrong).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("must be 0 to 100"), absl::string_view::npos) << status;
  }
  Harness constant({}, {.state_memory_bytes = 5500});
  EXPECT_FALSE(constant.engine->Capacity("fake")->grows);
  EXPECT_EQ(constant.engine->Capacity("fake", 1'000'000)->bytes_per_session, 1000);
}

TEST(EngineAdmissionTest, CapacityCountsReservedStates) {
  Harness h({}, {.max_num_seqs = 8, .state_memory_bytes = 5500});
  EXPECT_EQ(h.engine->Capacity("fake")->bytes_per_session, 1000);
  EXPECT_EQ(h.engine->Capacity("fake")->max_sessions, 5);
  auto params = Endless();
  params.n = 3;
  auto sink = Sink();
  const auto handle = h.engine->Submit(Ask(sink, "x", params));
  sink->WaitDeltas(3);
  EXPECT_EQ(h.engine->Capacity("fake")->sessions_in_use, 3);
  const EngineStats stats = h.engine->stats();
  EXPECT_EQ(stats.requests_running, 1);
  EXPECT_EQ(stats.sequences_running, 3);
  EXPECT_EQ(stats.state_bytes_reserved, 3000);
  h.engine->Cancel(*handle);
  EXPECT_TRUE(absl::IsCancelled(sink->Wait()));
  EXPECT_EQ(h.engine->Capacity("fake")->sessions_in_use, 0);
  EXPECT_EQ(h.engine->stats().requests_cancelled, 1);
}

TEST(EngineQueueTest, IsBoundedByRequestsAndByTokens) {
  Gate gate;
  Harness h({},
            {.max_num_seqs = 1,
             .max_num_queued_reqs = 3,
             .max_num_queued_tokens = 10,
             .state_memory_bytes = 1000},
            gate.Hook());
  std::vector<std::shared_ptr<RecordingSink>> sinks = {Sink()};
  ASSERT_TRUE(h.engine->Submit(Ask(sinks[0], "first")).ok());
  gate.WaitEntered();  // it left the queue
  const auto submit = [&](std::string_view prompt) {
    sinks.push_back(Sink());
    return h.engine->Submit(Ask(sinks.back(), prompt)).status();
  };
  EXPECT_TRUE(submit("12345").ok());
  const auto tokens = submit("123456");
  EXPECT_TRUE(absl::IsResourceExhausted(tokens));
  EXPECT_THAT(std::string(tokens.message()), HasSubstr("1 requests with 5 prompt tokens wait, 6 "
                                                       "more would exceed the limit of 10"));
  sinks.pop_back();
  EXPECT_TRUE(submit("1").ok());
  EXPECT_TRUE(submit("1").ok());
  const auto requests = submit("1");
  EXPECT_TRUE(absl::IsResourceExhausted(requests));
  EXPECT_THAT(std::string(requests.message()), HasSubstr("3 requests wait, the limit is 3"));
  sinks.pop_back();
  EXPECT_EQ(h.engine->stats().requests_waiting, 3);
  gate.Open();
  for (const auto& sink : sinks) EXPECT_TRUE(sink->Wait().ok());
}

TEST(EngineQueueTest, WhatAnEmptyQueueWouldNotTakeIsInvalid) {
  Harness h({}, {.max_num_queued_tokens = 10, .state_memory_bytes = 1000});
  const absl::Status status = h.engine->Submit(Ask(Sink(), "12345678901")).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("prompt: has 11 tokens, must have at most 10"));
  Generate(*h.engine, "1234567890");
}

TEST(EngineQueueTest, CancellingFreesThePlaceWhileTheLoopIsBusy) {
  Gate gate;
  Harness h({}, {.max_num_seqs = 1, .max_num_queued_reqs = 1, .state_memory_bytes = 1000},
            gate.Hook());
  auto running = Sink(), waiting = Sink(), next = Sink();
  ASSERT_TRUE(h.engine->Submit(Ask(running, "a")).ok());
  gate.WaitEntered();
  const auto handle = h.engine->Submit(Ask(waiting, "b"));
  ASSERT_TRUE(handle.ok());
  EXPECT_FALSE(h.engine->Submit(Ask(next, "c")).ok());
  h.engine->Cancel(*handle);
  EXPECT_TRUE(h.engine->Submit(Ask(next, "c")).ok());
  gate.Open();
  EXPECT_TRUE(absl::IsCancelled(waiting->Wait()));
  EXPECT_FALSE(waiting->started());
  EXPECT_TRUE(running->Wait().ok());
  EXPECT_TRUE(next->Wait().ok());
}

TEST(EngineQueueTest, ADeadlineEndsAWaitingRequest) {
  Harness h({}, {.max_num_seqs = 1, .state_memory_bytes = 1000});
  auto running = Sink(), waiting = Sink();
  running->wants_more = false;  // the loop sleeps, and must wake for the deadline
  const auto handle = h.engine->Submit(Ask(running, "a", Endless()));
  Request late = Ask(waiting, "b");
  late.deadline = In(milliseconds(30));
  ASSERT_TRUE(h.engine->Submit(late).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(waiting->Wait()));
  EXPECT_FALSE(waiting->started());
  EXPECT_FALSE(running->done());
  h.engine->Cancel(*handle);
  EXPECT_TRUE(absl::IsCancelled(running->Wait()));
  EXPECT_EQ(h.engine->stats().requests_failed, 1);
}

TEST(EngineDeadlineTest, EndsARequestInPrefillBetweenChunks) {
  std::atomic<int> prefills = 0;
  Harness h({}, {.max_num_batched_tokens = 8}, [&](std::string_view call) {
    if (call == "Prefill" && ++prefills > 2) std::this_thread::sleep_for(milliseconds(20));
    return absl::OkStatus();
  });
  auto sink = Sink();
  Request request = Ask(sink, std::string(80000, 'x'));
  request.deadline = In(milliseconds(60));
  ASSERT_TRUE(h.engine->Submit(request).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(sink->Wait()));
  EXPECT_EQ(sink->deltas(), 0);
  EXPECT_LT(h.model->prefilled_tokens, 80000);
  EXPECT_EQ(h.model->live_states, 0);
}

TEST(EngineDeadlineTest, EndsARequestInDecodeAndKeepsWhatWasSaid) {
  Harness h;
  auto sink = Sink();
  Request request = Ask(sink, "x", Endless());
  request.deadline = In(milliseconds(50));
  ASSERT_TRUE(h.engine->Submit(request).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(sink->Wait()));
  EXPECT_GT(sink->usage().completion_tokens, 0);
  EXPECT_EQ(sink->usage().completion_tokens, static_cast<int64_t>(sink->sample().tokens.size()));
  EXPECT_EQ(h.model->live_states, 0);
}

TEST(EngineCancelTest, AtRandomPointsFreesEveryState) {
  Harness h({}, {.max_num_seqs = 8, .max_num_batched_tokens = 16, .state_memory_bytes = 6000});
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    std::vector<RequestHandle> handles;
    for (int i = 0; i < 8; ++i) {
      auto params = Endless();
      params.n = 1 + static_cast<int32_t>(random() % 3);
      sinks.push_back(Sink());
      handles.push_back(
          *h.engine->Submit(Ask(sinks.back(), std::string(1 + random() % 60, 'c'), params)));
    }
    std::shuffle(handles.begin(), handles.end(), random);
    for (RequestHandle handle : handles) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
      h.engine->Cancel(handle);
    }
    for (const auto& sink : sinks) EXPECT_TRUE(absl::IsCancelled(sink->Wait()));
    ASSERT_EQ(h.model->live_states, 0);
    const EngineStats stats = h.engine->stats();
    ASSERT_EQ(stats.state_bytes, 0);
    ASSERT_EQ(stats.state_bytes_reserved, 0);
    ASSERT_EQ(stats.requests_running + stats.requests_waiting, 0);
  }
  h.engine->Cancel(1);       // done long ago
  h.engine->Cancel(999999);  // never was
  Generate(*h.engine, "still alive");
}

TEST(EngineEchoTest, ComesInPiecesThatEndWithACharacter) {
  Harness h;
  std::string prompt = "x";  // so that a piece's limit falls within a character
  while (prompt.size() < 2 * kEchoPieceBytes) prompt += "\xC3\xA9";
  auto sink = Sink();
  std::vector<size_t> sizes;
  sink->on_delta = [&](const Delta& delta) {
    if (delta.tokens.empty()) sizes.push_back(delta.text.size());
  };
  const auto handle = h.engine->Submit(Ask(sink, prompt, {.max_tokens = 1, .echo = true}));
  ASSERT_TRUE(handle.ok()) << handle.status();
  sink->WaitDeltas(3);
  h.engine->Cancel(*handle);
  EXPECT_TRUE(absl::IsCancelled(sink->Wait()));
  EXPECT_THAT(sizes, testing::ElementsAre(kEchoPieceBytes - 1, kEchoPieceBytes, 2));
  EXPECT_EQ(sink->sample().text, prompt);
}

TEST(EngineEchoTest, AllSamplesTogetherAreBounded) {
  Harness h;
  const std::string prompt(kMaxEchoBytes / 16 + 1, 'x');
  const absl::Status status =
      h.engine->Submit(Ask(Sink(), prompt, {.n = 16, .echo = true})).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("echo: the prompt's text has 1048577 bytes and n is 16"));
}

TEST(EngineReaderTest, ASlowReaderPausesOnlyItself) {
  Harness h;
  auto slow = Sink();
  slow->on_delta = [&](const Delta&) { slow->wants_more = false; };
  ASSERT_TRUE(h.engine->Submit(Ask(slow, "slow", {.seed = 1, .max_tokens = 10})).ok());
  slow->WaitDeltas(1);
  for (int i = 0; i < 5; ++i) Generate(*h.engine, "fast", {.max_tokens = 30});
  EXPECT_EQ(slow->deltas(), 1);
  EXPECT_EQ(h.model->live_states, 1);
  const int64_t calls = h.model->calls;
  for (int64_t deltas = 2; deltas <= 10; ++deltas) {
    slow->wants_more = true;
    h.engine->Wake();
    slow->WaitDeltas(deltas);
  }
  EXPECT_TRUE(slow->Wait().ok());
  EXPECT_EQ(h.model->calls, calls + 2 * 9) << "one decode and one sampling a token, none idle";
  EXPECT_EQ(slow->sample(), Generate(*h.engine, "slow", {.seed = 1, .max_tokens = 10})->sample());
}

TEST(EngineReaderTest, ReadersThatStopDoNotKeepTheirPlaces) {
  Harness h({}, {.max_num_seqs = 3,
                 .max_num_batched_tokens = 32,
                 .paused_timeout = milliseconds(20),
                 .state_memory_bytes = 1'000'000});
  std::vector<std::shared_ptr<RecordingSink>> stopped;
  for (int i = 0; i < 3; ++i) {
    stopped.push_back(Sink());
    RecordingSink& sink = *stopped.back();
    sink.on_delta = [&sink](const Delta&) { sink.wants_more = false; };
    ASSERT_TRUE(h.engine->Submit(Ask(stopped.back(), "never read", Endless())).ok());
  }
  Generate(*h.engine, "waits for a place");  // nothing else wakes the loop
  for (const auto& sink : stopped) {
    const absl::Status status = sink->Wait();
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the reader took nothing"));
  }
  EXPECT_EQ(h.model->live_states, 0);
}

TEST(EngineReaderTest, AReaderThatGoesOnIsNotEnded) {
  Harness h({}, {.max_num_batched_tokens = 32,
                 .paused_timeout = std::chrono::hours(1),
                 .state_memory_bytes = 1'000'000});
  auto slow = Sink();
  slow->on_delta = [&](const Delta&) { slow->wants_more = false; };
  ASSERT_TRUE(h.engine->Submit(Ask(slow, "slow", {.seed = 1, .max_tokens = 3})).ok());
  for (int64_t deltas = 1; deltas < 3; ++deltas) {
    slow->WaitDeltas(deltas);
    slow->wants_more = true;
    h.engine->Wake();
  }
  EXPECT_TRUE(slow->Wait().ok());
}

TEST(EngineErrorTest, NonFiniteLogitsFailTheirRequestOnly) {
  Harness h({.poison = ByteId('!')});
  std::vector<std::shared_ptr<RecordingSink>> good, bad;
  for (int i = 0; i < 6; ++i) {
    good.push_back(Sink());
    bad.push_back(Sink());
    Request poisoned = Ask(bad.back(), "poison! in here", {.max_tokens = 20, .n = i == 0 ? 3 : 1});
    if (i >= 2) poisoned.sampling.prompt_logprobs = 1;
    if (i >= 4) poisoned.purpose = Purpose::kScore;
    ASSERT_TRUE(h.engine->Submit(Ask(good.back(), "good", {.max_tokens = 50})).ok());
    ASSERT_TRUE(h.engine->Submit(poisoned).ok());
  }
  for (const auto& sink : bad) EXPECT_TRUE(absl::IsInternal(sink->Wait()));
  for (const auto& sink : good) EXPECT_TRUE(sink->Wait().ok());
  EXPECT_EQ(h.engine->stats().requests_failed, 6);
  EXPECT_EQ(h.model->live_states, 0);
}

TEST(EngineErrorTest, AFailingCallFailsItsRequestsAndTheLoopGoesOn) {
  for (std::string_view failing : {"NewState", "Prefill", "Decode", "Sample"}) {
    std::atomic<bool> fail = false;
    Harness h({}, SmallOptions(), [&](std::string_view call) {
      return fail && call == failing ? absl::ResourceExhaustedError("out of device memory")
                                     : absl::OkStatus();
    });
    Generate(*h.engine, "before", {.max_tokens = 3, .n = 2});
    fail = true;
    auto sink = Sink();
    ASSERT_TRUE(h.engine->Submit(Ask(sink, "during", {.max_tokens = 3, .n = 2})).ok());
    const absl::Status status = sink->Wait();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << failing;
    EXPECT_EQ(status.message(), "out of device memory");
    EXPECT_EQ(h.model->live_states, 0);
    fail = false;
    Generate(*h.engine, "after", {.max_tokens = 3, .n = 2});
  }
}

TEST(EngineErrorTest, ACopyThatFailsFailsTheRequest) {
  std::atomic<int> states = 0;
  Harness h({}, SmallOptions(), [&](std::string_view call) {
    return call == "NewState" && ++states == 3 ? absl::ResourceExhaustedError("full")
                                               : absl::OkStatus();
  });
  auto sink = Sink();
  ASSERT_TRUE(h.engine->Submit(Ask(sink, "copies", {.n = 4})).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(sink->Wait()));
  EXPECT_EQ(sink->deltas(), 0);
  EXPECT_EQ(h.model->live_states, 0);
}

TEST(EngineModelsTest, SeveralModelsShareTheLoopAndTheBudget) {
  auto a = std::make_shared<FakeModel>(FakeOptions{.seed = 1});
  auto b = std::make_shared<FakeModel>(FakeOptions{.prefill_chunk = 5, .seed = 2});
  auto engine = *Engine::Create({{"a", a, 2}, {"b", b}}, SmallOptions());
  const auto run = [&](const std::string& model, uint64_t seed) {
    auto sink = Sink();
    Request request = Ask(sink, "two models, one loop", {.seed = seed, .max_tokens = 40});
    request.model = model;
    EXPECT_TRUE(engine->Submit(request).ok());
    return sink;
  };
  const auto alone_a = run("a", 1);
  ASSERT_TRUE(alone_a->Wait().ok());
  const auto alone_b = run("b", 1);
  ASSERT_TRUE(alone_b->Wait().ok());
  EXPECT_NE(alone_a->sample().text, alone_b->sample().text);
  std::vector<std::shared_ptr<RecordingSink>> together_a, together_b;
  for (int i = 0; i < 5; ++i) {
    together_a.push_back(run("a", 1));
    together_b.push_back(run("b", 1));
  }
  for (const auto& sink : together_a) {
    EXPECT_TRUE(sink->Wait().ok());
    EXPECT_EQ(sink->sample(), alone_a->sample());
  }
  for (const auto& sink : together_b) {
    EXPECT_TRUE(sink->Wait().ok());
    EXPECT_EQ(sink->sample(), alone_b->sample());
  }
}

TEST(EngineDrainTest, LetsRunningAndWaitingRequestsFinish) {
  Harness h({}, {.max_num_seqs = 1, .state_memory_bytes = 1000});
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 5; ++i) {
    sinks.push_back(Sink());
    ASSERT_TRUE(h.engine->Submit(Ask(sinks.back(), "drain", {.max_tokens = 20})).ok());
  }
  EXPECT_TRUE(h.engine->Drain(SteadyTime::max()));
  for (const auto& sink : sinks) {
    EXPECT_TRUE(sink->done());
    EXPECT_TRUE(sink->Wait().ok());
  }
  EXPECT_TRUE(absl::IsUnavailable(h.engine->Submit(Ask(Sink(), "late")).status()));
}

TEST(EngineDrainTest, EndsWhatIsStillRunningInTime) {
  Harness h({}, {.max_num_seqs = 1, .state_memory_bytes = 1000});
  auto running = Sink(), waiting = Sink();
  ASSERT_TRUE(h.engine->Submit(Ask(running, "a", Endless())).ok());
  ASSERT_TRUE(h.engine->Submit(Ask(waiting, "b")).ok());
  EXPECT_FALSE(h.engine->Drain(In(milliseconds(20))));
  EXPECT_TRUE(running->done() && waiting->done());
  EXPECT_TRUE(absl::IsUnavailable(running->Wait()));
  EXPECT_TRUE(absl::IsUnavailable(waiting->Wait()));
  EXPECT_EQ(h.model->live_states, 0);
}

TEST(EngineDrainTest, TheDestructorEndsEverything) {
  auto running = Sink(), waiting = Sink();
  {
    Harness h({}, {.max_num_seqs = 1, .state_memory_bytes = 1000});
    ASSERT_TRUE(h.engine->Submit(Ask(running, "a", Endless())).ok());
    ASSERT_TRUE(h.engine->Submit(Ask(waiting, "b")).ok());
    running->WaitDeltas(1);
  }
  EXPECT_TRUE(absl::IsUnavailable(running->Wait()));
  EXPECT_TRUE(absl::IsUnavailable(waiting->Wait()));
}

TEST(EngineDrainTest, ASinkMayCallTheEngine) {
  Harness h;
  auto sink = Sink();
  std::atomic<RequestHandle> handle = 0;
  sink->on_delta = [&](const Delta&) {
    EXPECT_EQ(h.engine->stats().requests_finished, 0);
    h.engine->Cancel(handle);
  };
  handle = *h.engine->Submit(Ask(sink, "self", Endless()));
  EXPECT_TRUE(absl::IsCancelled(sink->Wait()));
}

}  // namespace
}  // namespace tvq
