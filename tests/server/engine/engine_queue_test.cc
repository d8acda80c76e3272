// Requests that wait: how many may, and what ends their waiting.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/server/engine/harness.h"

namespace tvq {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

TEST(EngineQueueTest, IsBoundedByRequestsAndByTokens) {
  ModelGate gate;
  Harness h({},
            {.max_num_seqs = 1,
             .max_num_queued_reqs = 3,
             .max_num_queued_tokens = 10,
             .state_memory_bytes = 1000},
            gate.Hook());
  std::vector<std::shared_ptr<RecordingSink>> sinks = {NewSink()};
  ASSERT_TRUE(h.engine->Submit(Ask(sinks[0], "first")).ok());
  gate.WaitEntered();  // it left the queue
  const auto submit = [&](std::string_view prompt) {
    sinks.push_back(NewSink());
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
  const absl::Status status = h.engine->Submit(Ask(NewSink(), "12345678901")).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("prompt: has 11 tokens, must have at most 10"));
  Generate(*h.engine, "1234567890");
}

TEST(EngineQueueTest, CancellingFreesThePlaceWhileTheLoopIsBusy) {
  ModelGate gate;
  Harness h({}, {.max_num_seqs = 1, .max_num_queued_reqs = 1, .state_memory_bytes = 1000},
            gate.Hook());
  auto running = NewSink(), waiting = NewSink(), next = NewSink();
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
  auto running = NewSink(), waiting = NewSink();
  running->wants_more = false;  // the loop sleeps, and must wake for the deadline
  const auto handle = h.engine->Submit(Ask(running, "a", Endless()));
  Request late = Ask(waiting, "b");
  late.deadline = DeadlineIn(milliseconds(30));
  ASSERT_TRUE(h.engine->Submit(late).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(waiting->Wait()));
  EXPECT_FALSE(waiting->started());
  EXPECT_FALSE(running->done());
  h.engine->Cancel(*handle);
  EXPECT_TRUE(absl::IsCancelled(running->Wait()));
  EXPECT_EQ(h.engine->stats().requests_failed, 1);
}

}  // namespace
}  // namespace tvq
