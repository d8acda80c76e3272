#include "base/task_threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <vector>

namespace tvq {
namespace {

using testing::ElementsAre;
using Threads = TaskThreads<std::string>;

// A task that waits until it is let go.
class Gate {
 public:
  Threads::Task Task() {
    return [this] {
      begun_.set_value();
      go_.get_future().wait();
    };
  }
  void AwaitBegin() { begun_.get_future().wait(); }
  void LetGo() { go_.set_value(); }

 private:
  std::promise<void> begun_, go_;
};

TEST(TaskThreadsTest, RunsTasksWithoutOwnersInTheOrderOfArrival) {
  std::vector<int> order;
  TaskThreads<> threads({.threads = 1});
  for (int i = 0; i < 3; ++i) threads.Schedule([&order, i] { order.push_back(i); });
  threads.Stop();
  EXPECT_THAT(order, ElementsAre(0, 1, 2));
}

TEST(TaskThreadsTest, StopRunsWhatARunningTaskSchedulesAndRefusesWhatComesLater) {
  TaskThreads<> threads({.threads = 2});
  std::atomic<int> ran = 0;
  std::promise<void> begun;
  threads.Schedule([&] {
    begun.set_value();
    EXPECT_TRUE(threads.Schedule([&] { ++ran; }));
    ++ran;
  });
  begun.get_future().wait();
  threads.Stop();
  EXPECT_EQ(ran, 2);
  const auto held = std::make_shared<int>();
  EXPECT_FALSE(threads.Schedule([held] {}));
  EXPECT_EQ(held.use_count(), 1) << "the task is still there";
}

// Its task may have to be another thread's than the one that has just ended one.
TEST(TaskThreadsTest, AnOwnerAtItsLimitGoesOnWhenItsShortTaskEnds) {
  Threads threads({.threads = 1, .most_of_owner = 1, .short_thread = true});
  Gate gate, block;
  threads.Schedule("b", 1, /*is_short=*/false, block.Task());
  block.AwaitBegin();
  threads.Schedule("a", 1, /*is_short=*/true, gate.Task());
  gate.AwaitBegin();  // on the short thread: the other one has b's
  std::promise<void> long_ran;
  threads.Schedule("a", 100, /*is_short=*/false, [&] { long_ran.set_value(); });
  block.LetGo();
  gate.LetGo();
  long_ran.get_future().wait();
}

TEST(TaskThreadsTest, StopsWithAnOwnerAtItsLimit) {
  std::atomic<int> ran = 0;
  {
    Threads threads({.threads = 4, .most_of_owner = 1});
    for (int i = 0; i < 100; ++i) threads.Schedule("a", 1, /*is_short=*/false, [&] { ++ran; });
  }
  EXPECT_EQ(ran, 100);
}

}  // namespace
}  // namespace tvq
