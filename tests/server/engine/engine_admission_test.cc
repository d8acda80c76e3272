// What the engine takes, and what runs at once within its budget.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tests/server/engine/harness.h"

namespace tvq {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

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
    Request request = Ask(NewSink(), "x");
    change(request);
    return h.engine->Submit(request).status();
  };
  EXPECT_TRUE(absl::IsNotFound(submit([](Request& r) { r.model = "other"; })));
  EXPECT_TRUE(absl::IsInvalidArgument(submit([](Request& r) { r.prompt.clear(); })));
  EXPECT_TRUE(absl::IsInvalidArgument(submit([](Request& r) { r.sampling.n = 5; })));
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      submit([](Request& r) { r.deadline = DeadlineIn(milliseconds(-1)); })));
  EXPECT_TRUE(absl::IsNotFound(h.engine->Capacity("other").status()));
  EXPECT_EQ(h.model->calls, 0);
}

TEST(EngineSubmitTest, ANeedAboveTheWholeBudgetIsNamed) {
  Harness h({.bytes_per_token = 10}, {.state_memory_bytes = 4000});
  const auto status =
      h.engine->Submit(Ask(NewSink(), "12345", {.max_tokens = 95, .n = 3})).status();
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
    sinks.push_back(NewSink());
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

TEST(EngineAdmissionTest, CapacityTellsHowStatesGrow) {
  const auto sizes = [](const FakeOptions& options) {
    const ModelCapacity capacity = *Harness(options).engine->Capacity("fake", 1);
    EXPECT_EQ(capacity.bytes_per_token, capacity.grows ? 10 : 0);
    std::vector<std::pair<int64_t, int64_t>> told;
    told.reserve(capacity.sizes.size());
    for (const SessionSize& size : capacity.sizes) told.emplace_back(size.tokens, size.bytes);
    return told;
  };
  using Sizes = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(sizes({}), Sizes());
  EXPECT_EQ(sizes({.max_position = 1023, .bytes_per_token = 10}), Sizes());
  EXPECT_EQ(sizes({.max_position = 8192, .bytes_per_token = 10}),
            (Sizes{{1024, 11'240}, {8192, 82'920}}));
}

TEST(EngineAdmissionTest, CapacityCountsReservedStates) {
  Harness h({}, {.max_num_seqs = 8, .state_memory_bytes = 5500});
  EXPECT_EQ(h.engine->Capacity("fake")->bytes_per_session, 1000);
  EXPECT_EQ(h.engine->Capacity("fake")->max_sessions, 5);
  auto params = Endless();
  params.n = 3;
  auto sink = NewSink();
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

TEST(EngineModelsTest, SeveralModelsShareTheLoopAndTheBudget) {
  auto a = std::make_shared<FakeModel>(FakeOptions{.seed = 1});
  auto b = std::make_shared<FakeModel>(FakeOptions{.prefill_chunk = 5, .seed = 2});
  auto engine = *Engine::Create({{"a", a, 2}, {"b", b}}, SmallOptions());
  const auto run = [&](const std::string& model, uint64_t seed) {
    auto sink = NewSink();
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

}  // namespace
}  // namespace tvq
