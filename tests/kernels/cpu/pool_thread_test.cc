#include "kernels/cpu/pool_thread.h"

#include <unistd.h>

#include <future>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/cpu/affinity.h"

namespace tvq {
namespace {

// A thread that holds a task and is asleep in it, on any of `cores`, until it is let go on.
class Sleeper {
 public:
  Sleeper(PoolThread& thread, const std::vector<int>& cores)
      : runner_([this, &thread, cores] {
          SetAffinity(cores);
          thread.Bind();
          thread.Begin();
          id_.set_value(gettid());
          go_on_.get_future().wait();
          thread.End();
          after_.set_value(Affinity());
        }),
        id(id_.get_future().get()) {}

  // Where it may run after its End.
  std::vector<int> Finish() {
    go_on_.set_value();
    runner_.join();
    return after_.get_future().get();
  }

 private:
  std::promise<pid_t> id_;
  std::promise<void> go_on_;
  std::promise<std::vector<int>> after_;
  std::thread runner_;

 public:
  const pid_t id;
};

class PoolThreadTest : public testing::Test {
 protected:
  void SetUp() override {
    if (all_.size() < 2) GTEST_SKIP() << "needs two cores";
  }
  void TearDown() override { SetAffinity(all_); }

  const std::vector<int> all_ = Affinity();
  PoolThread thread_;
};

TEST_F(PoolThreadTest, RunsOnTheLentCoreUntilItsEnd) {
  Sleeper sleeper(thread_, all_);
  SetAffinity({all_[1]});
  EXPECT_TRUE(thread_.LendCore());
  EXPECT_EQ(Affinity(sleeper.id), std::vector<int>{all_[1]});
  EXPECT_EQ(sleeper.Finish(), all_);
  EXPECT_FALSE(thread_.working());
}

TEST_F(PoolThreadTest, WhoGivesItsCoreAwayIsAsFreeAsBefore) {
  Sleeper sleeper(thread_, all_);
  SetAffinity({all_[0]});
  SetAffinity(all_);
  EXPECT_TRUE(thread_.GiveCore());
  EXPECT_EQ(Affinity(sleeper.id).size(), 1U);
  EXPECT_EQ(Affinity(), all_);
  EXPECT_EQ(sleeper.Finish(), all_);
}

TEST_F(PoolThreadTest, IsLentOneCoreAtATime) {
  Sleeper sleeper(thread_, all_);
  SetAffinity({all_[0]});
  EXPECT_TRUE(thread_.LendCore());
  SetAffinity({all_[1]});
  EXPECT_FALSE(thread_.LendCore());
  EXPECT_FALSE(thread_.GiveCore());
  EXPECT_EQ(Affinity(sleeper.id), std::vector<int>{all_[0]});
  EXPECT_EQ(sleeper.Finish(), all_);
}

TEST_F(PoolThreadTest, StaysWhereItMayRun) {
  Sleeper sleeper(thread_, {all_[1]});
  SetAffinity({all_[0]});
  EXPECT_FALSE(thread_.LendCore());
  EXPECT_FALSE(thread_.GiveCore());
  EXPECT_EQ(Affinity(sleeper.id), std::vector<int>{all_[1]});
  EXPECT_EQ(sleeper.Finish(), std::vector<int>{all_[1]});
}

TEST_F(PoolThreadTest, IsLeftAloneWithoutATask) {
  thread_.Bind();
  EXPECT_FALSE(thread_.LendCore());
  thread_.Begin();
  thread_.End();
  EXPECT_FALSE(thread_.GiveCore());
  EXPECT_EQ(Affinity(), all_);
}

TEST_F(PoolThreadTest, CountsItsOwnTimeAlone) {
  Sleeper sleeper(thread_, all_);
  // It may still be on its way to sleep.
  auto before = thread_.CpuTime();
  auto after = before;
  do {
    before = after;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    after = thread_.CpuTime();
  } while (after != before);
  sleeper.Finish();

  thread_.Bind();
  const auto start = thread_.CpuTime();
  while (thread_.CpuTime() == start) {
  }
  EXPECT_GT(thread_.CpuTime(), start);
}

}  // namespace
}  // namespace tvq
