#include "base/thread_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <thread>

namespace tvq {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using testing::Contains;
using testing::Key;

TEST(ThreadTimesTest, AreTheProcessorTimeOfEachThread) {
  const ThreadTimes before = ReadThreadTimes();
  int busy = 0;
  std::thread([&busy] {
    busy = gettid();
    timespec time{};
    while (time.tv_nsec < 30'000'000) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    const ThreadTimes now = ReadThreadTimes();
    EXPECT_GE(now.at(busy), milliseconds(30));
  }).join();
  EXPECT_THAT(before, Contains(Key(gettid())));
  EXPECT_FALSE(before.contains(busy));
}

TEST(ThreadTimesTest, TheBusiestThreadCounts) {
  const ThreadTimes then{{1, nanoseconds(100)}, {2, nanoseconds(50)}, {3, nanoseconds(900)}};
  EXPECT_EQ(MostBetween(then, {{1, nanoseconds(110)}, {2, nanoseconds(90)}}), nanoseconds(40));
  EXPECT_EQ(MostBetween(then, {{1, nanoseconds(110)}, {4, nanoseconds(70)}}), nanoseconds(70));
  EXPECT_EQ(MostBetween(then, {}), nanoseconds(0));
}

}  // namespace
}  // namespace tvq
