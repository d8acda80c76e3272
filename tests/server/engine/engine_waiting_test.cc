// Requests that wait for their state: for whoever fills it, or for memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/server/engine/harness.h"
#include "tests/server/engine/manual_source.h"
#include "tests/server/engine/test_session.h"

namespace tvq {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

TEST(EngineBudgetTest, AShortageIsReportedAndReliefLetsTheRequestRun) {
  Harness h({}, {.max_num_seqs = 4, .state_memory_bytes = 2999});
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
  ASSERT_TRUE(h.engine->Submit(Ask(behind, "would not leave it enough")).ok());
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
