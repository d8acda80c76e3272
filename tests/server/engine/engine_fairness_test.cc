// Who gets the next place, and how long the queue may be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
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

// Fills the only place until it is cancelled.
struct Blocker {
  explicit Blocker(Engine& engine) : engine(engine), sink(std::make_shared<RecordingSink>()) {
    handle = *engine.Submit(Ask(sink, "blocks", {.ignore_eos = true, .max_tokens = 1'000'000'000}));
    sink->WaitDeltas(1);
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
