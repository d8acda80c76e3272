// States of requests that have ended, which somebody still has.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/server/engine/harness.h"
#include "tests/server/engine/manual_source.h"

namespace tvq {
namespace {

Request AskAs(const std::string& owner, std::shared_ptr<RecordingSink> sink) {
  Request request = Ask(std::move(sink), "x", {.max_tokens = 3});
  request.owner = owner;
  return request;
}

// Of another owner, which has to find room beside what is left.
absl::Status GenerateBeside(Engine& engine) {
  const auto sink = NewSink();
  Request request = AskAs("other", sink);
  request.deadline = DeadlineIn(std::chrono::seconds(20));  // rather than hang
  const auto handle = engine.Submit(request);
  return handle.ok() ? sink->Wait() : handle.status();
}

TEST(EngineLeftStatesTest, StatesThatNobodyTakesCountForTheirOwnerAndLeaveRoomForOthers) {
  Harness h({}, {.state_memory_bytes = 64'000});
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 100; ++i) {
    sinks.push_back(NewSink());
    Request request = AskAs("greedy", sinks.back());
    request.keep = true;
    ASSERT_TRUE(h.engine->Submit(request).ok());
  }
  // Of the 64 states 4 are for others, and of 60 the owner may have 15 times what it leaves.
  for (size_t i = 0; i < 56; ++i) EXPECT_TRUE(sinks[i]->Wait().ok());
  EXPECT_EQ(GenerateBeside(*h.engine), absl::OkStatus());
  EngineStats stats = h.engine->stats();
  EXPECT_EQ(stats.requests_waiting, 44);
  EXPECT_EQ(stats.state_bytes_left, 56'000);
  EXPECT_EQ(stats.state_bytes_reserved, 0);
  EXPECT_FALSE(sinks[56]->started());
  for (const auto& sink : sinks) {
    EXPECT_TRUE(sink->Wait().ok());
    EXPECT_TRUE(sink->TakeKept());  // and gives it back
  }
  EXPECT_EQ(GenerateBeside(*h.engine), absl::OkStatus());
  stats = h.engine->stats();
  EXPECT_EQ(stats.state_bytes_left, 0);
  EXPECT_EQ(h.engine->budget().used(), 0);
}

TEST(EngineLeftStatesTest, WhatNobodyWantsToKeepIsGoneAtOnce) {
  class Careless : public RecordingSink {
    void OnKept(Continuation) override {}
  };
  Harness h({}, {.state_memory_bytes = 1000});
  for (int i = 0; i < 3; ++i) {
    const auto sink = std::make_shared<Careless>();
    Request request = AskAs("owner", sink);
    request.keep = true;
    ASSERT_TRUE(h.engine->Submit(request).ok());
    EXPECT_TRUE(sink->Wait().ok());
  }
  EXPECT_EQ(GenerateBeside(*h.engine), absl::OkStatus());
  EXPECT_EQ(h.engine->stats().state_bytes_left, 0);
}

TEST(EngineLeftStatesTest, AStateThatIsStillFilledCountsAfterItsRequestWasCancelled) {
  Harness h({}, {.state_memory_bytes = 2000});
  const auto source = std::make_shared<ManualSource>();
  const auto cancelled = NewSink();
  Request first = AskAs("greedy", cancelled);
  first.start = StartPoint{.source = source, .position = 5};
  const auto handle = h.engine->Submit(first);
  source->WaitAsked();
  h.engine->Cancel(*handle);
  EXPECT_TRUE(absl::IsCancelled(cancelled->Wait()));
  const auto sink = NewSink();
  ASSERT_TRUE(h.engine->Submit(AskAs("greedy", sink)).ok());
  EXPECT_EQ(GenerateBeside(*h.engine), absl::OkStatus());
  EXPECT_FALSE(sink->started());
  EXPECT_EQ(h.engine->stats().state_bytes_left, 1000);
  source->Finish();
  EXPECT_TRUE(sink->Wait().ok());
  EXPECT_EQ(h.engine->stats().state_bytes_left, 0);
}

}  // namespace
}  // namespace tvq
