// More sequences than a step has rows: who computes when, and that no bits change by it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/server/engine/harness.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

EngineOptions FourRows() {
  return {.max_num_seqs = 4, .max_num_batched_tokens = 32, .state_memory_bytes = 1'000'000};
}

Request Of(const std::string& owner, std::shared_ptr<RecordingSink> sink, std::string_view prompt,
           SamplingParams sampling) {
  Request request = Ask(std::move(sink), prompt, std::move(sampling));
  request.owner = owner;
  return request;
}

// Streams that never end by themselves.
class EndlessStreams {
 public:
  EndlessStreams(Engine& engine, int count, const std::string& owner, int32_t priority = 0)
      : engine_(engine) {
    for (int i = 0; i < count; ++i) {
      sinks_.push_back(NewSink());
      sinks_.back()->on_delta = [this](const Delta& d) { tokens_ += std::ssize(d.tokens); };
      Request request = Of(owner, sinks_.back(), "goes on and on", Endless());
      request.priority = priority;
      auto handle = engine.Submit(std::move(request));
      EXPECT_TRUE(handle.ok()) << handle.status();
      handles_.push_back(*handle);
    }
    for (const auto& sink : sinks_) sink->WaitDeltas(1);
  }
  ~EndlessStreams() {
    for (const RequestHandle handle : handles_) engine_.Cancel(handle);
    for (const auto& sink : sinks_) EXPECT_TRUE(absl::IsCancelled(sink->Wait()));
  }
  const std::vector<std::shared_ptr<RecordingSink>>& sinks() const { return sinks_; }
  int64_t tokens() const { return tokens_; }  // of all

 private:
  Engine& engine_;
  std::atomic<int64_t> tokens_ = 0;
  std::vector<std::shared_ptr<RecordingSink>> sinks_;
  std::vector<RequestHandle> handles_;
};

class SinkThatStarts : public RecordingSink {
 public:
  explicit SinkThatStarts(std::function<void()> on_start) : on_start_(std::move(on_start)) {}
  void OnStart() override {
    RecordingSink::OnStart();
    on_start_();
  }

 private:
  std::function<void()> on_start_;
};

TEST(EngineTurnsTest, BesideEndlessStreamsOfTheSameOwnerAShortRequestEnds) {
  Harness h({}, FourRows());
  const auto alone = Generate(*h.engine, "three tokens", {.seed = 7, .max_tokens = 3});
  const EndlessStreams streams(*h.engine, 70, "");
  const auto beside = Generate(*h.engine, "three tokens", {.seed = 7, .max_tokens = 3});
  EXPECT_EQ(beside->sample(), alone->sample());
  EXPECT_EQ(h.engine->stats().requests_running, 70);
}

TEST(EngineTurnsTest, BesideManyStreamsOfOneKeyAnotherHasItsFirstTokenAtOnceAndHalfOfTheRows) {
  Harness h({}, FourRows());
  const EndlessStreams many(*h.engine, 500, "a");
  int64_t at_start = 0, at_first = 0;
  const auto sink = std::make_shared<SinkThatStarts>([&] { at_start = h.model->calls; });
  sink->on_delta = [&](const Delta&) {
    if (at_first == 0) at_first = h.model->calls;
  };
  ASSERT_TRUE(h.engine->Submit(Of("b", sink, "quick", {.max_tokens = 3})).ok());
  ASSERT_TRUE(sink->Wait().ok());
  // The prompt is one chunk. A step calls the model for rows, a prompt, and samples of each.
  EXPECT_LE(at_first - at_start, 4 * (1 + 3));

  const EndlessStreams few(*h.engine, 4, "b");
  const int64_t of_a = many.tokens(), of_b = few.tokens();
  for (const auto& s : few.sinks()) s->WaitDeltas(s->deltas() + 100);
  const auto a = static_cast<double>(many.tokens() - of_a);
  const auto b = static_cast<double>(few.tokens() - of_b);
  EXPECT_NEAR(b / (a + b), 0.5, 0.05);
}

TEST(EngineTurnsTest, BesideLongPromptsOfTheSameOwnerAShortOneIsFedAtOnceAndAllGetTheirBits) {
  const auto long_prompt = [](int i) {
    return std::string(4000 + static_cast<size_t>(i), static_cast<char>('a' + i));
  };
  const SamplingParams params{.seed = 7, .max_tokens = 3};
  Harness alone({}, FourRows());
  std::vector<RecordingSink::Sample> expected;
  expected.reserve(10);
  for (int i = 0; i < 10; ++i) {
    expected.push_back(Generate(*alone.engine, long_prompt(i), params)->sample());
  }
  const auto quick_alone = Generate(*alone.engine, "ten tokens", params)->sample();

  ModelGate gate;
  Harness h({}, FourRows(), gate.Hook());
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 10; ++i) {
    sinks.push_back(NewSink());
    Request request = Ask(sinks.back(), long_prompt(i), params);
    request.priority = i % 2 - 1;
    ASSERT_TRUE(h.engine->Submit(std::move(request)).ok());
    if (i == 0) gate.WaitEntered();
  }
  int64_t fed = 0, started = 0;
  const auto quick = std::make_shared<SinkThatStarts>([&] { started = h.model->prefilled_tokens; });
  quick->on_delta = [&](const Delta&) {
    if (fed == 0) fed = h.model->prefilled_tokens;
  };
  ASSERT_TRUE(h.engine->Submit(Ask(quick, "ten tokens", params)).ok());
  gate.Open();
  EXPECT_TRUE(quick->Wait().ok());
  // Two chunks of its own, and those that its steps have beside them.
  EXPECT_LE(fed - started, 3 * 32);
  EXPECT_EQ(quick->sample(), quick_alone);
  for (size_t i = 0; i < sinks.size(); ++i) {
    EXPECT_TRUE(sinks[i]->Wait().ok());
    EXPECT_EQ(sinks[i]->sample(), expected[i]);
  }
}

TEST(EngineTurnsTest, BesideEndlessStreamsThatGoFirstARequestOfTheSameOwnerEnds) {
  Harness h({}, FourRows());
  const EndlessStreams streams(*h.engine, 64, "", /*priority=*/-1);
  const auto sink = NewSink();
  ASSERT_TRUE(h.engine->Submit(Ask(sink, "normal", {.ignore_eos = true, .max_tokens = 20})).ok());
  EXPECT_TRUE(sink->Wait().ok());
}

TEST(EngineTurnsTest, PausedReadersHoldNoRow) {
  Harness h({}, FourRows());
  std::vector<std::shared_ptr<RecordingSink>> unread;
  std::vector<RequestHandle> handles;
  for (int i = 0; i < 100; ++i) {
    unread.push_back(NewSink());
    RecordingSink& sink = *unread.back();
    sink.on_delta = [&sink](const Delta&) { sink.wants_more = false; };
    handles.push_back(*h.engine->Submit(Ask(unread.back(), "never read", Endless())));
  }
  for (const auto& sink : unread) sink->WaitDeltas(1);
  const int64_t rows = h.model->decoded_rows;
  Generate(*h.engine, "quick", {.ignore_eos = true, .max_tokens = 20});
  EXPECT_EQ(h.model->decoded_rows - rows, 19) << "nobody else computed";
  for (const RequestHandle handle : handles) h.engine->Cancel(handle);
  for (const auto& sink : unread) EXPECT_TRUE(absl::IsCancelled(sink->Wait()));
}

TEST(EngineTurnsTest, SamplesOfOnePromptTakeTurnsWithTheSameBits) {
  const SamplingParams params{.seed = 3, .max_tokens = 12, .n = 4};
  Harness wide({}, FourRows());
  const auto expected = Generate(*wide.engine, "four samples", params);
  const EndlessStreams streams(*wide.engine, 9, "");
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Generate(*wide.engine, "four samples", params)->samples(), expected->samples());
  }
}

TEST(EngineTurnsTest, AKeysLimitsHold) {
  Harness h({}, FourRows());
  const auto submit = [&](const OwnerLimits& limits, int32_t n = 1) {
    auto sink = NewSink();
    Request request = Of("a", sink, "x", Endless());
    request.owner_limits = limits;
    request.sampling.n = n;
    return std::pair(h.engine->Submit(std::move(request)), sink);
  };
  const auto [refused, unused] = submit({.max_num_admitted_seqs = 2}, 3);
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("n: value is 3"));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("at most 2"));

  const auto [first, first_sink] = submit({.max_num_admitted_seqs = 2});
  const auto [second, second_sink] = submit({.max_num_admitted_seqs = 2});
  const auto [third, third_sink] = submit({.max_num_admitted_seqs = 2});
  first_sink->WaitDeltas(1);
  second_sink->WaitDeltas(1);
  // Another key is not held up by what waits.
  auto other = NewSink();
  ASSERT_TRUE(h.engine->Submit(Of("b", other, "y", {.max_tokens = 5})).ok());
  EXPECT_TRUE(other->Wait().ok());
  EXPECT_FALSE(third_sink->started());
  EXPECT_EQ(h.engine->stats().requests_waiting, 1);
  h.engine->Cancel(*first);
  third_sink->WaitDeltas(1);
  for (const auto& [handle, sink] : {std::pair(*second, second_sink), {*third, third_sink}}) {
    h.engine->Cancel(handle);
    EXPECT_TRUE(absl::IsCancelled(sink->Wait()));
  }
  EXPECT_TRUE(absl::IsCancelled(first_sink->Wait()));
}

TEST(EngineTurnsTest, AKeyLeavesBytesAndPlacesInTheQueueForOthers) {
  Harness h({}, {.max_num_seqs = 4, .max_num_queued_reqs = 8, .state_memory_bytes = 32'000});
  // 28 states of 1000 bytes, of 32. The rest waits, at most 6 of 8.
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  std::vector<RequestHandle> handles;
  for (int i = 0; i < 28; ++i) {
    sinks.push_back(NewSink());
    handles.push_back(*h.engine->Submit(Of("a", sinks.back(), "x", Endless())));
    sinks.back()->WaitDeltas(1);
  }
  absl::Status full;
  for (int i = 0; i < 10 && full.ok(); ++i) {
    const auto sink = NewSink();
    const auto handle = h.engine->Submit(Of("a", sink, "x", Endless()));
    full = handle.status();
    if (!handle.ok()) continue;
    sinks.push_back(sink);
    handles.push_back(*handle);
  }
  EXPECT_EQ(handles.size(), 34u);
  EXPECT_TRUE(absl::IsResourceExhausted(full));
  EXPECT_THAT(std::string(full.message()), HasSubstr("the queue is full for this key or address"));
  auto other = NewSink();
  ASSERT_TRUE(h.engine->Submit(Of("b", other, "y", {.max_tokens = 5})).ok());
  EXPECT_TRUE(other->Wait().ok());
  for (const RequestHandle handle : handles) h.engine->Cancel(handle);
  for (const auto& sink : sinks) EXPECT_TRUE(absl::IsCancelled(sink->Wait()));
}

TEST(EngineTurnsTest, HoweverManyGreedyKeysWaitTheQueueHasAPlaceForMore) {
  Harness h({}, {.max_num_seqs = 1, .max_num_queued_reqs = 64, .state_memory_bytes = 1000});
  std::vector<std::shared_ptr<RecordingSink>> sinks = {NewSink()};
  std::vector<RequestHandle> handles = {*h.engine->Submit(Of("a", sinks.back(), "x", Endless()))};
  sinks.back()->WaitDeltas(1);
  const auto submit = [&](const std::string& owner) {
    const auto sink = NewSink();
    const auto handle = h.engine->Submit(Of(owner, sink, "x", Endless()));
    if (!handle.ok()) return false;
    sinks.push_back(sink);
    handles.push_back(*handle);
    return true;
  };
  for (const std::string greedy : {"a", "b", "c"}) {
    while (submit(greedy)) {
    }
  }
  for (const std::string other : {"d", "e", "f", "g"}) {
    EXPECT_TRUE(submit(other)) << other;
    EXPECT_FALSE(submit(other)) << other;
  }
  for (const RequestHandle handle : handles) h.engine->Cancel(handle);
  for (const auto& sink : sinks) EXPECT_TRUE(absl::IsCancelled(sink->Wait()));
}

// One that waits for much memory delays others of other keys by nothing, if they need little.
TEST(EngineTurnsTest, ASmallRequestOvertakesOneThatWaitsForMemory) {
  Harness h({.bytes_per_token = 10}, {.max_num_seqs = 4, .state_memory_bytes = 100'000});
  // 51,000 bytes each: one runs, the other waits for as long as that does.
  const SamplingParams half{.ignore_eos = true, .max_tokens = 4990};
  auto runs = NewSink(), waits = NewSink(), small = NewSink();
  runs->on_delta = [&](const Delta&) { runs->wants_more = false; };
  const auto running = h.engine->Submit(Of("a", runs, "0123456789", half));
  ASSERT_TRUE(running.ok()) << running.status();
  runs->WaitDeltas(1);
  const auto waiting = h.engine->Submit(Of("b", waits, "0123456789", half));
  ASSERT_TRUE(waiting.ok()) << waiting.status();
  ASSERT_TRUE(h.engine->Submit(Of("c", small, "y", {.max_tokens = 5})).ok());
  EXPECT_TRUE(small->Wait().ok());
  EXPECT_FALSE(waits->started());
  h.engine->Cancel(*running);
  waits->WaitDeltas(1);
  h.engine->Cancel(*waiting);
  EXPECT_TRUE(absl::IsCancelled(runs->Wait()));
  EXPECT_TRUE(absl::IsCancelled(waits->Wait()));
}

}  // namespace
}  // namespace tvq
