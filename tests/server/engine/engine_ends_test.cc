// What ends a request or the engine ahead of time: deadlines, cancellation, failures, drain.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/server/engine/harness.h"

namespace tvq {
namespace {

using std::chrono::milliseconds;

TEST(EngineDeadlineTest, EndsARequestInPrefillBetweenChunks) {
  std::atomic<int> prefills = 0;
  Harness h({}, {.max_num_batched_tokens = 8}, [&](std::string_view call) {
    if (call == "Prefill" && ++prefills > 2) std::this_thread::sleep_for(milliseconds(20));
    return absl::OkStatus();
  });
  auto sink = NewSink();
  Request request = Ask(sink, std::string(80000, 'x'));
  request.deadline = DeadlineIn(milliseconds(60));
  ASSERT_TRUE(h.engine->Submit(request).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(sink->Wait()));
  EXPECT_EQ(sink->deltas(), 0);
  EXPECT_LT(h.model->prefilled_tokens, 80000);
  EXPECT_EQ(h.model->live_states, 0);
}

TEST(EngineDeadlineTest, EndsARequestInDecodeAndKeepsWhatWasSaid) {
  Harness h;
  auto sink = NewSink();
  Request request = Ask(sink, "x", Endless());
  request.deadline = DeadlineIn(milliseconds(50));
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
      sinks.push_back(NewSink());
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

TEST(EngineErrorTest, NonFiniteLogitsFailTheirRequestOnly) {
  Harness h({.poison = ByteId('!')});
  std::vector<std::shared_ptr<RecordingSink>> good, bad;
  for (int i = 0; i < 6; ++i) {
    good.push_back(NewSink());
    bad.push_back(NewSink());
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
    auto sink = NewSink();
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
  auto sink = NewSink();
  ASSERT_TRUE(h.engine->Submit(Ask(sink, "copies", {.n = 4})).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(sink->Wait()));
  EXPECT_EQ(sink->deltas(), 0);
  EXPECT_EQ(h.model->live_states, 0);
}

TEST(EngineDrainTest, LetsRunningAndWaitingRequestsFinish) {
  Harness h({}, {.max_num_seqs = 1, .state_memory_bytes = 1000});
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 5; ++i) {
    sinks.push_back(NewSink());
    ASSERT_TRUE(h.engine->Submit(Ask(sinks.back(), "drain", {.max_tokens = 20})).ok());
  }
  EXPECT_TRUE(h.engine->Drain(SteadyTime::max()));
  for (const auto& sink : sinks) {
    EXPECT_TRUE(sink->done());
    EXPECT_TRUE(sink->Wait().ok());
  }
  EXPECT_TRUE(absl::IsUnavailable(h.engine->Submit(Ask(NewSink(), "late")).status()));
}

TEST(EngineDrainTest, EndsWhatIsStillRunningInTime) {
  Harness h({}, {.max_num_seqs = 1, .state_memory_bytes = 1000});
  auto running = NewSink(), waiting = NewSink();
  ASSERT_TRUE(h.engine->Submit(Ask(running, "a", Endless())).ok());
  ASSERT_TRUE(h.engine->Submit(Ask(waiting, "b")).ok());
  EXPECT_FALSE(h.engine->Drain(DeadlineIn(milliseconds(20))));
  EXPECT_TRUE(running->done() && waiting->done());
  EXPECT_TRUE(absl::IsUnavailable(running->Wait()));
  EXPECT_TRUE(absl::IsUnavailable(waiting->Wait()));
  EXPECT_EQ(h.model->live_states, 0);
}

TEST(EngineDrainTest, TheDestructorEndsEverything) {
  auto running = NewSink(), waiting = NewSink();
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
  auto sink = NewSink();
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
