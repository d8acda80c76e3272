#include "kernels/cpu/thread_pool.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/cpu/affinity.h"

namespace tvq {
namespace {

class ThreadPoolTest : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, RunsEveryTaskOnce) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.threads(), GetParam());
  for (int64_t n : {0, 1, 2, 3, 17, 1000}) {
    std::vector<std::atomic<int>> runs(static_cast<size_t>(n));
    pool.ParallelFor(n, [&](int64_t i) { runs[static_cast<size_t>(i)].fetch_add(1); });
    for (const auto& r : runs) EXPECT_EQ(r.load(), 1);
  }
}

// What tasks wrote is seen by the caller without further synchronisation, over many short calls
// (workers awake) and after a pause (workers parked).
TEST_P(ThreadPoolTest, ResultsAreVisibleToTheCaller) {
  ThreadPool pool(GetParam());
  std::vector<int64_t> values(64, 0);
  for (int64_t call = 1; call <= 3000; ++call) {
    pool.ParallelFor(64, [&](int64_t i) { values[static_cast<size_t>(i)] += i; });
    if (call % 1000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ASSERT_EQ(std::accumulate(values.begin(), values.end(), int64_t{0}), call * 64 * 63 / 2);
  }
}

TEST_P(ThreadPoolTest, StartsAndStopsWithoutWork) {
  for (int i = 0; i < 20; ++i) ThreadPool pool(GetParam());
}

// A thread that is not on a core in the middle of a task is moved to one of a fellow that waits for
// it, and is as free as before afterwards: a worker by the caller, the caller by a worker.
class ThreadTakenOffTest : public testing::TestWithParam<bool> {};

TEST_P(ThreadTakenOffTest, GetsACoreAndIsFreeAgain) {
  const std::vector<int> all = Affinity();
  if (all.size() < 2) GTEST_SKIP() << "needs two cores";
  const bool caller_sleeps = GetParam();
  const pid_t caller = gettid();
  std::atomic<pid_t> worker{0};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  ThreadPool pool(2);
  // A worker looks for a short while only, so a caller that goes to sleep late is not seen.
  bool moved = false;
  while (!moved && std::chrono::steady_clock::now() < deadline) {
    std::atomic<int> arrived{0};
    pool.ParallelFor(2, [&](int64_t) {
      if (gettid() != caller) worker = gettid();
      arrived.fetch_add(1);
      while (arrived.load() < 2) std::this_thread::yield();  // one task each
      if ((gettid() == caller) != caller_sleeps) return;
      for (int i = 0; i < 100 && !moved; ++i) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        moved = Affinity().size() == 1;
      }
    });
  }
  EXPECT_TRUE(moved);
  EXPECT_EQ(Affinity(), all);
  // The caller does not wait for what a worker does after its task.
  while (Affinity(worker) != all && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  EXPECT_EQ(Affinity(worker), all);
}

INSTANTIATE_TEST_SUITE_P(WhoSleeps, ThreadTakenOffTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Caller" : "Worker"; });

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, testing::Values(1, 2, 3, 8));

}  // namespace
}  // namespace tvq
