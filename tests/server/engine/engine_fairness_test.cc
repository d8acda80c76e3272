// Who gets the next place, and how long the queue may be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/server/engine/harness.h"

namespace tvq {
namespace {

using ::testing::ElementsAre;

// Notes who started, in order.
class StartOrder {
 public:
  class Sink : public RecordingSink {
   public:
    Sink(StartOrder& order, std::string name) : order_(order), name_(std::move(name)) {}
    void OnStart() override {
      RecordingSink::OnStart();
      const std::lock_guard lock(order_.mutex_);
      order_.names_.push_back(name_);
    }

   private:
    StartOrder& order_;
    std::string name_;
  };

  std::shared_ptr<Sink> NewSink(std::string name) {
    return std::make_shared<Sink>(*this, std::move(name));
  }
  std::vector<std::string> names() const {
    const std::lock_guard lock(mutex_);
    return names_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> names_;
};

// Fills the only places until it is cancelled.
struct Blocker {
  explicit Blocker(Engine& engine, int32_t places = 1)
      : engine(engine), sink(std::make_shared<RecordingSink>()) {
    SamplingParams sampling = Endless();
    sampling.n = places;
    handle = *engine.Submit(Ask(sink, "blocks", sampling));
    sink->WaitDeltas(places);
  }
  ~Blocker() { EXPECT_TRUE(absl::IsCancelled(sink->Wait())); }
  void Go() const { engine.Cancel(handle); }

  Engine& engine;
  std::shared_ptr<RecordingSink> sink;
  RequestHandle handle;
};

TEST(EngineFairnessTest, OwnersTakeTurnsAndPrioritiesCountWithinThem) {
  Harness h({}, {.max_num_admitted_seqs = 1, .state_memory_bytes = 1000});
  StartOrder order;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  const Blocker blocker(*h.engine);
  const auto submit = [&](const std::string& owner, int32_t priority, const std::string& name) {
    auto sink = order.NewSink(name);
    Request request = Ask(sink, "same size", {.max_tokens = 4});
    request.owner = owner;
    request.priority = priority;
    EXPECT_TRUE(h.engine->Submit(request).ok());
    sinks.push_back(sink);
  };
  submit("heavy", 0, "heavy 1");
  submit("heavy", 0, "heavy 2");
  submit("heavy", 0, "heavy 3");
  submit("light", 9, "light");
  submit("heavy", -1, "heavy 0");
  blocker.Go();
  for (const auto& sink : sinks) EXPECT_TRUE(sink->Wait().ok());
  EXPECT_THAT(order.names(), ElementsAre("heavy 0", "light", "heavy 1", "heavy 2", "heavy 3"));
}

TEST(EngineFairnessTest, WhatAnOwnerGeneratesCountsAgainstIt) {
  Harness h({}, {.max_num_admitted_seqs = 1, .state_memory_bytes = 1000});
  StartOrder order;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  const Blocker blocker(*h.engine);
  const auto submit = [&](const std::string& owner, int32_t max_tokens) {
    sinks.push_back(order.NewSink(owner));
    Request request =
        Ask(sinks.back(), "0123456789", {.ignore_eos = true, .max_tokens = max_tokens});
    request.owner = owner;
    EXPECT_TRUE(h.engine->Submit(request).ok());
  };
  for (int i = 0; i < 3; ++i) submit("talks", 95);
  for (int i = 0; i < 12; ++i) submit("asks", 5);
  blocker.Go();
  for (const auto& sink : sinks) EXPECT_TRUE(sink->Wait().ok());
  // 105 tokens against 15 each: seven of these to one of those.
  const std::vector<std::string> names = order.names();
  ASSERT_EQ(names.size(), 15u);
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(names[i], i == 0 || i == 8 || i == 14 ? "talks" : "asks") << i;
  }
}

// Always somebody waits: for the limit of its own, or for room beside a stream that does not end.
TEST(EngineFairnessTest, WhoWorkedAloneIsNotBehindThoughOthersCouldNotStart) {
  for (const bool own_limit : {true, false}) {
    SCOPED_TRACE(own_limit);
    Harness h({}, {.max_num_admitted_seqs = 3, .state_memory_bytes = 3000});
    StartOrder order;
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    const auto submit = [&](const std::shared_ptr<RecordingSink>& sink, const std::string& owner,
                            int64_t prompt, int32_t samples = 1) {
      SamplingParams sampling{.max_tokens = 1, .n = samples};
      Request request = Ask(sink, std::string(static_cast<size_t>(prompt), 'x'), sampling);
      request.owner = owner;
      if (own_limit && owner == "waits") request.owner_limits.max_num_admitted_seqs = 1;
      return *h.engine->Submit(std::move(request));
    };
    const auto runs = NewSink(), waits = NewSink(), worked = NewSink();
    runs->wants_more = false;
    const RequestHandle stays = submit(runs, own_limit ? "waits" : "stays", 1);
    runs->WaitStarted();
    const RequestHandle cannot = submit(waits, "waits", 1, own_limit ? 1 : 3);
    submit(worked, "worked", 1000);
    EXPECT_TRUE(worked->Wait().ok());
    {
      const Blocker blocker(*h.engine, 2);
      for (int i = 0; i < 3; ++i) {
        for (const std::string& owner : {"a", "b", "c"}) {
          submit(sinks.emplace_back(order.NewSink(owner)), owner, 10);
        }
      }
      submit(sinks.emplace_back(order.NewSink("worked")), "worked", 3);
      blocker.Go();
    }
    for (const auto& sink : sinks) EXPECT_TRUE(sink->Wait().ok());
    const std::vector<std::string> names = order.names();
    EXPECT_LT(std::ranges::find(names, "worked") - names.begin(), 4);
    EXPECT_FALSE(waits->started());
    for (const RequestHandle handle : {cannot, stays}) h.engine->Cancel(handle);
    for (const auto& sink : {runs, waits}) EXPECT_TRUE(absl::IsCancelled(sink->Wait()));
  }
}

TEST(EngineFairnessTest, OfACancelledRequestWhatWasComputedCounts) {
  for (const int64_t chunks : {0, 2}) {
    SCOPED_TRACE(chunks);
    std::atomic<RecordingSink*> pauses = nullptr;
    int64_t left = chunks;
    Harness h({.prefill_chunk = 8},
              {.max_num_admitted_seqs = 1, .max_num_batched_tokens = 8, .state_memory_bytes = 1000},
              [&](std::string_view call) {
                RecordingSink* const sink = pauses;
                if (call == "Prefill" && sink != nullptr && --left == 0) sink->wants_more = false;
                return absl::OkStatus();
              });
    StartOrder order;
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    const auto submit = [&](const std::string& owner, size_t prompt) {
      Request request = Ask(sinks.back(), std::string(prompt, 'x'), {.max_tokens = 1});
      request.owner = owner;
      return *h.engine->Submit(std::move(request));
    };
    RequestHandle cancelled = 0;
    int64_t before = 0;
    {
      const Blocker blocker(*h.engine);
      before = h.model->prefilled_tokens;
      sinks.push_back(order.NewSink("cancels"));
      sinks[0]->wants_more = chunks > 0;
      pauses = sinks[0].get();
      cancelled = submit("cancels", 1000);
      for (int i = 0; i < 3; ++i) {
        for (const std::string& owner : {"a", "b"}) {
          sinks.push_back(order.NewSink(owner));
          submit(owner, 10);
        }
      }
      blocker.Go();
    }
    sinks[0]->WaitStarted();
    while (h.model->prefilled_tokens < before + 8 * chunks) std::this_thread::yield();
    pauses = nullptr;
    sinks.push_back(order.NewSink("cancels"));
    submit("cancels", 10);
    h.engine->Cancel(cancelled);
    EXPECT_TRUE(absl::IsCancelled(sinks[0]->Wait()));
    for (size_t i = 1; i < sinks.size(); ++i) EXPECT_TRUE(sinks[i]->Wait().ok());
    // The others are charged 11 tokens for each of theirs.
    if (chunks == 0) {
      EXPECT_THAT(order.names(), ElementsAre("cancels", "a", "b", "cancels", "a", "b", "a", "b"));
    } else {
      EXPECT_THAT(order.names(), ElementsAre("cancels", "a", "b", "a", "b", "cancels", "a", "b"));
    }
  }
}

TEST(EngineFairnessTest, TenThousandWait) {
  Harness h({}, {.max_num_admitted_seqs = 8,
                 .max_num_queued_reqs = 11'000,  // some of which is for more owners
                 .max_num_batched_tokens = 256,
                 .state_memory_bytes = 8000});
  std::mt19937 random(1);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  std::vector<RequestHandle> handles;
  std::vector<bool> cancelled(10'000, false), late(10'000, false);
  {
    // Occupies all places, so that all wait.
    const auto blocker = std::make_shared<RecordingSink>();
    const auto blocking = h.engine->Submit(
        Ask(blocker, "blocks", {.ignore_eos = true, .max_tokens = 1'000'000'000, .n = 8}));
    blocker->WaitDeltas(8);
    for (size_t i = 0; i < 10'000; ++i) {
      sinks.push_back(std::make_shared<RecordingSink>());
      Request request = Ask(sinks.back(), "x", {.max_tokens = 1});
      request.owner = std::to_string(random() % 20);
      request.priority = static_cast<int32_t>(random() % 3);
      late[i] = random() % 10 == 0;
      if (late[i]) {
        request.deadline = std::chrono::steady_clock::now() +
                           std::chrono::seconds(1);  // of which Submit takes none
      }
      const auto handle = h.engine->Submit(request);
      ASSERT_TRUE(handle.ok()) << handle.status();
      handles.push_back(*handle);
    }
    for (size_t i = 0; i < 10'000; ++i) {
      if (!late[i]) continue;
      EXPECT_TRUE(absl::IsDeadlineExceeded(sinks[i]->Wait()));
    }
    for (size_t i = 0; i < 10'000; ++i) {
      if (late[i] || random() % 2 == 0) continue;
      h.engine->Cancel(handles[i]);
      cancelled[i] = true;
    }
    const auto in_queue =
        static_cast<int64_t>(10'000 - std::count(late.begin(), late.end(), true) -
                             std::count(cancelled.begin(), cancelled.end(), true));
    EXPECT_EQ(h.engine->stats().requests_waiting, in_queue);
    h.engine->Cancel(*blocking);
  }
  for (size_t i = 0; i < 10'000; ++i) {
    const absl::Status status = sinks[i]->Wait();
    EXPECT_TRUE(late[i] || (cancelled[i] ? absl::IsCancelled(status) : status.ok())) << status;
  }
  EXPECT_EQ(h.engine->stats().requests_waiting, 0);
}

int64_t Count(const Histogram& h) {
  return std::accumulate(h.counts.begin(), h.counts.end(), int64_t{0});
}

TEST(EngineStatsTest, LatenciesOfRequestsThatGenerate) {
  Harness h;
  Generate(*h.engine, "0123456789", {.ignore_eos = true, .max_tokens = 5, .n = 3});
  auto score = std::make_shared<RecordingSink>();
  Request request = Ask(score, "not counted");
  request.purpose = Purpose::kScore;
  ASSERT_TRUE(h.engine->Submit(request).ok());
  ASSERT_TRUE(score->Wait().ok());
  const EngineStats stats = h.engine->stats();
  EXPECT_EQ(Count(stats.queue_time), 1);
  EXPECT_EQ(Count(stats.time_to_first_token), 1);
  EXPECT_EQ(Count(stats.inter_token_latency), 3 * 4);
  EXPECT_EQ(Count(stats.e2e_latency), 1);
  EXPECT_LE(stats.queue_time.sum, stats.time_to_first_token.sum);
  EXPECT_LE(stats.time_to_first_token.sum, stats.e2e_latency.sum);
  EXPECT_LE(stats.inter_token_latency.sum, 3 * stats.e2e_latency.sum);
}

TEST(EngineStatsTest, AStepThatHangsShows) {
  std::mutex mutex;
  std::condition_variable changed;
  bool inside = false, open = false;
  Harness h({}, SmallOptions(), [&](std::string_view call) {
    if (call != "Decode") return absl::OkStatus();
    std::unique_lock lock(mutex);
    inside = true;
    changed.notify_all();
    changed.wait(lock, [&] { return open; });
    return absl::OkStatus();
  });
  const auto before = std::chrono::steady_clock::now();
  auto sink = std::make_shared<RecordingSink>();
  ASSERT_TRUE(h.engine->Submit(Ask(sink, "hangs", {.ignore_eos = true, .max_tokens = 2})).ok());
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return inside; });
    const EngineStats stats = h.engine->stats();
    ASSERT_TRUE(stats.step_began);
    EXPECT_GE(*stats.step_began, before);
    open = true;
    changed.notify_all();
  }
  EXPECT_TRUE(sink->Wait().ok());
  while (h.engine->stats().step_began) std::this_thread::yield();  // it waits for work
}

}  // namespace
}  // namespace tvq
