// How a reader gets its text: echo in pieces, at its own pace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/server/engine/harness.h"

namespace tvq {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

TEST(EngineEchoTest, ComesInPiecesThatEndWithACharacter) {
  Harness h;
  std::string prompt = "x";  // so that a piece's limit falls within a character
  while (prompt.size() < 2 * kEchoPieceBytes) prompt += "\xC3\xA9";
  auto sink = NewSink();
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

// Not before it is taken, and the prompt then.
TEST(EngineEchoTest, GoesOutAsItsReaderTakesIt) {
  const std::string prompt(2 * kEchoPieceBytes, 'x'), other = "other";
  for (const int32_t max_tokens : {0, 2}) {
    Harness h;
    auto slow = NewSink();
    slow->on_delta = [&](const Delta& delta) {
      if (delta.tokens.empty()) slow->wants_more = false;
    };
    ASSERT_TRUE(
        h.engine->Submit(Ask(slow, prompt, {.max_tokens = max_tokens, .n = 2, .echo = true})).ok());
    for (int64_t pieces = 1; pieces <= 4; ++pieces) {
      slow->WaitDeltas(pieces);
      Generate(*h.engine, other);
      EXPECT_EQ(slow->deltas(), pieces);
      EXPECT_EQ(h.model->prefilled_tokens, pieces * std::ssize(other));
      slow->wants_more = true;
      h.engine->Wake();
    }
    EXPECT_TRUE(slow->Wait().ok());
    for (const auto& [index, sample] : slow->samples()) {
      EXPECT_EQ(sample.text.substr(0, prompt.size()), prompt) << index;
    }
  }
}

TEST(EngineEchoTest, AReaderThatTakesNothingMoreLosesTheRequest) {
  Harness h({}, {.paused_timeout = milliseconds(20), .state_memory_bytes = 1'000'000});
  auto sink = NewSink();
  sink->on_delta = [&](const Delta&) { sink->wants_more = false; };
  const std::string prompt(2 * kEchoPieceBytes, 'x');
  ASSERT_TRUE(h.engine->Submit(Ask(sink, prompt, {.max_tokens = 1, .echo = true})).ok());
  const absl::Status status = sink->Wait();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_EQ(sink->deltas(), 1);
  EXPECT_EQ(h.model->live_states, 0);
}

TEST(EngineEchoTest, AllSamplesTogetherAreBounded) {
  Harness h;
  const std::string prompt(kMaxEchoBytes / 16 + 1, 'x');
  const absl::Status status =
      h.engine->Submit(Ask(NewSink(), prompt, {.n = 16, .echo = true})).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("echo: the prompt's text has 1048577 bytes and n is 16"));
}

TEST(EngineReaderTest, ASlowReaderPausesOnlyItself) {
  Harness h;
  auto slow = NewSink();
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
  Harness h({}, {.max_num_admitted_seqs = 3,
                 .max_num_batched_tokens = 32,
                 .paused_timeout = milliseconds(20),
                 .state_memory_bytes = 1'000'000});
  std::vector<std::shared_ptr<RecordingSink>> stopped;
  for (int i = 0; i < 3; ++i) {
    stopped.push_back(NewSink());
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
  auto slow = NewSink();
  slow->on_delta = [&](const Delta&) { slow->wants_more = false; };
  ASSERT_TRUE(h.engine->Submit(Ask(slow, "slow", {.seed = 1, .max_tokens = 3})).ok());
  for (int64_t deltas = 1; deltas < 3; ++deltas) {
    slow->WaitDeltas(deltas);
    slow->wants_more = true;
    h.engine->Wake();
  }
  EXPECT_TRUE(slow->Wait().ok());
}

// While the loop was busy all of it came together: the deadline, the end of patience, the reader.
TEST(EngineReaderTest, AReaderMayGoOnWhenItsDeadlineHasPassed) {
  Harness h({}, {.paused_timeout = milliseconds(100), .state_memory_bytes = 1'000'000});
  auto slow = NewSink();
  slow->on_delta = [&](const Delta&) { slow->wants_more = false; };
  Request request = Ask(slow, "slow", Endless());
  request.deadline = DeadlineIn(milliseconds(200));
  ASSERT_TRUE(h.engine->Submit(std::move(request)).ok());
  slow->WaitDeltas(1);
  Generate(*h.engine, "in which the slow one pauses");
  ModelGate busy;
  h.model->on_call = busy.Hook();
  auto other = NewSink();
  ASSERT_TRUE(h.engine->Submit(Ask(other, "other")).ok());
  busy.WaitEntered();
  std::this_thread::sleep_for(milliseconds(300));
  slow->wants_more = true;
  busy.Open();
  EXPECT_TRUE(absl::IsDeadlineExceeded(slow->Wait()));
  EXPECT_TRUE(other->Wait().ok());
}

// One place, so that a second request waits for as long as the first one runs.
EngineOptions OnePlace() {
  return {.max_num_admitted_seqs = 1, .stream_interval = 4, .state_memory_bytes = 1'000'000};
}

// How many tokens each delta has.
std::shared_ptr<RecordingSink> SinkThatCounts(std::vector<size_t>* counts) {
  auto sink = NewSink();
  sink->on_delta = [counts](const Delta& delta) { counts->push_back(delta.tokens.size()); };
  return sink;
}

TEST(EngineStreamIntervalTest, TokensGoOutTogetherWhileOthersWait) {
  Harness h({}, OnePlace());
  const SamplingParams sampling = {.seed = 1, .ignore_eos = true, .max_tokens = 12};
  const auto alone = Generate(*h.engine, "first", sampling);
  EXPECT_EQ(alone->deltas(), 12);

  std::vector<size_t> counts, counts_of_last;
  const auto first = SinkThatCounts(&counts), last = SinkThatCounts(&counts_of_last);
  ModelGate gate;  // until the second one waits
  h.model->on_call = gate.Hook();
  ASSERT_TRUE(h.engine->Submit(Ask(first, "first", sampling)).ok());
  gate.WaitEntered();
  ASSERT_TRUE(h.engine->Submit(Ask(last, "last", sampling)).ok());
  gate.Open();
  ASSERT_TRUE(first->Wait().ok());
  ASSERT_TRUE(last->Wait().ok());
  // Nobody had come yet when the first step was planned. The first token comes at once.
  EXPECT_THAT(counts, testing::ElementsAre(1, 4, 4, 3));
  EXPECT_EQ(first->sample(), alone->sample());
  EXPECT_THAT(counts_of_last, testing::ElementsAreArray(std::vector<size_t>(12, 1)));
}

TEST(EngineStreamIntervalTest, WhatWasHeldComesBeforeTheEnd) {
  Harness h({}, OnePlace());
  std::vector<size_t> counts;
  const auto first = SinkThatCounts(&counts), last = NewSink();
  int64_t decodes = 0;
  RequestHandle handle = 0;
  ModelGate gate;
  h.model->on_call = [&, hook = gate.Hook()](std::string_view call) {
    // The step during which it is cancelled still counts: tokens 1, 2 to 5, 6, 7.
    if (call == "Decode" && ++decodes == 6) h.engine->Cancel(handle);
    return hook(call);
  };
  Request request = Ask(first, "first", Endless());
  request.keep = request.keep_on_cancel = true;
  const auto submitted = h.engine->Submit(std::move(request));
  ASSERT_TRUE(submitted.ok());
  gate.WaitEntered();
  handle = *submitted;
  ASSERT_TRUE(h.engine->Submit(Ask(last, "last", {.max_tokens = 1})).ok());
  gate.Open();
  EXPECT_TRUE(absl::IsCancelled(first->Wait()));
  EXPECT_THAT(counts, testing::ElementsAre(1, 4, 2));
  EXPECT_EQ(first->usage().completion_tokens, 7);
  const auto kept = first->TakeKept();
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->tokens.size(), std::string("first").size() + 7);
  EXPECT_TRUE(last->Wait().ok());
}

TEST(EngineStreamIntervalTest, WhatWasHeldComesBeforeAFailure) {
  Harness h({}, OnePlace());
  std::vector<size_t> counts;
  const auto first = SinkThatCounts(&counts), last = NewSink();
  int64_t decodes = 0;
  ModelGate gate;
  h.model->on_call = [&, hook = gate.Hook()](std::string_view call) {
    if (call == "Decode" && ++decodes == 7) return absl::DataLossError("broken");
    return hook(call);
  };
  ASSERT_TRUE(h.engine->Submit(Ask(first, "first", Endless())).ok());
  gate.WaitEntered();
  ASSERT_TRUE(h.engine->Submit(Ask(last, "last", {.max_tokens = 1})).ok());
  gate.Open();
  EXPECT_TRUE(absl::IsDataLoss(first->Wait()));
  EXPECT_THAT(counts, testing::ElementsAre(1, 4, 2));
  EXPECT_TRUE(last->Wait().ok());
}

TEST(EngineStreamIntervalTest, ASampleThatEndsLeavesTheOthersHeld) {
  EngineOptions two = OnePlace();
  two.max_num_admitted_seqs = 2;
  Harness h({}, two);
  SamplingParams sampling = {.max_tokens = 40, .logit_bias = {{kEos, 4}}, .n = 2};
  const auto size = [](const std::shared_ptr<RecordingSink>& sink, int32_t i) {
    return sink->samples()[i].tokens.size();
  };
  std::shared_ptr<RecordingSink> alone;
  do {  // until one ends within the other's four
    sampling.seed = sampling.seed.value_or(0) + 1;
    ASSERT_LT(*sampling.seed, 1000u);
    alone = Generate(*h.engine, "first", sampling);
  } while (size(alone, 0) < 2 || size(alone, 0) % 4 == 1 || size(alone, 1) < size(alone, 0) + 4);

  const auto first = NewSink(), last = NewSink();
  ModelGate gate;
  h.model->on_call = gate.Hook();
  ASSERT_TRUE(h.engine->Submit(Ask(first, "first", sampling)).ok());
  gate.WaitEntered();
  ASSERT_TRUE(h.engine->Submit(Ask(last, "last", {.max_tokens = 1, .n = 2})).ok());
  gate.Open();
  ASSERT_TRUE(first->Wait().ok());
  EXPECT_EQ(first->samples(), alone->samples());
  EXPECT_LT(first->deltas(), alone->deltas());
  EXPECT_TRUE(last->Wait().ok());
}

}  // namespace
}  // namespace tvq
