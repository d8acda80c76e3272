#include "kernels/cpu/run_ahead.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace tvq {
namespace {

constexpr int64_t kShared = kSharedWork;

TEST(GuidedRangesTest, CoversAllInRangesThatShrinkToOne) {
  for (int threads : {1, 2, 7}) {
    for (int64_t count : {0, 1, 2, 5, 104, 1000}) {
      GuidedRanges ranges(count, threads);
      int64_t taken = 0, last = count;
      for (auto range = ranges.Take(); range.begin < range.end; range = ranges.Take()) {
        EXPECT_EQ(range.begin, taken);
        EXPECT_LE(range.end - range.begin, std::max<int64_t>(1, last));
        EXPECT_LE(range.end - range.begin, std::max<int64_t>(1, (count - taken) / (2 * threads)));
        last = range.end - range.begin;
        taken = range.end;
      }
      EXPECT_EQ(taken, count);
      if (count > 0) {
        EXPECT_EQ(last, 1);
      }
      EXPECT_EQ(ranges.Take().begin, count);
    }
  }
}

class RunAheadTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { device_ = *MakeCpuDevice(GetParam(), ""); }
  CpuDevice& cpu() { return AsCpu(*device_); }

 private:
  std::unique_ptr<Device> device_;
};

// Whoever runs task i runs the one that it was told of next, and no other.
TEST_P(RunAheadTest, RunAheadSaysWhatComesNext) {
  for (int64_t tasks : {0, 1, 2, 3, 17, 1000}) {
    for (int64_t work : {int64_t{0}, kShared}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(tasks));
      std::atomic<int> ends{0};
      RunAhead(cpu(), tasks, work, [&](int64_t task, int64_t next) {
        thread_local std::pair<const void*, int64_t> expected;
        const void* call = runs.data();
        if (expected.first == call) {
          EXPECT_EQ(expected.second, task);
        }
        expected = {next < tasks ? call : nullptr, next};
        runs[static_cast<size_t>(task)].fetch_add(1);
        if (next == tasks) ends.fetch_add(1);
        EXPECT_LE(next, tasks);
      });
      for (const auto& r : runs) EXPECT_EQ(r.load(), 1);
      EXPECT_EQ(ends.load() > 0, tasks > 0);
      EXPECT_LE(ends.load(), GetParam());
    }
  }
}

// No task before the caller has prepared; what it wrote is seen. Fetched is what a thread runs
// first.
TEST_P(RunAheadTest, RunPreparedPreparesBeforeAllTasks) {
  const auto caller = std::this_thread::get_id();
  for (int64_t tasks : {0, 1, 2, 17, 1000}) {
    for (int call = 0; call < 200; ++call) {
      int64_t prepared = 0;
      std::atomic<int64_t> sum{0};
      std::atomic<int> fetches{0};
      std::vector<std::atomic<bool>> busy(static_cast<size_t>(GetParam()));  // by thread
      RunPrepared(
          cpu(), tasks, kShared,
          [&] {
            EXPECT_EQ(std::this_thread::get_id(), caller);
            if (call % 50 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
            prepared = 7;
          },
          [&](int64_t task) {
            EXPECT_NE(std::this_thread::get_id(), caller);
            EXPECT_LT(task, tasks);
            fetches.fetch_add(1);
          },
          [&](int64_t, int64_t, int64_t thread) {
            std::atomic<bool>& mine = busy.at(static_cast<size_t>(thread));
            EXPECT_FALSE(mine.exchange(true));
            sum.fetch_add(prepared);
            mine = false;
          });
      EXPECT_EQ(prepared, 7);
      EXPECT_EQ(sum.load(), 7 * tasks);
      EXPECT_LT(fetches.load(), GetParam());
    }
  }
}

TEST(GuidedRangesTest, NoRangeIsLongerThanAsked) {
  GuidedRanges ranges(1000, 2, 16);
  int64_t taken = 0;
  for (auto range = ranges.Take(); range.begin < range.end; range = ranges.Take()) {
    EXPECT_EQ(range.begin, taken);
    EXPECT_LE(range.end - range.begin, 16);
    taken = range.end;
  }
  EXPECT_EQ(taken, 1000);
}

INSTANTIATE_TEST_SUITE_P(Threads, RunAheadTest, testing::Values(1, 2, 3, 5));

}  // namespace
}  // namespace tvq
