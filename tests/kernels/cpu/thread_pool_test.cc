#include "kernels/cpu/thread_pool.h"

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

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

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, testing::Values(1, 2, 3, 8));

}  // namespace
}  // namespace tvq
