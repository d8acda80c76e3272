#include "server/startup/watchdog.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace tvq {
namespace {

using std::chrono::seconds;

const SteadyTime kStart{std::chrono::hours(1)};

TEST(MakesProgressTest, AStepMayTakeUpToTheTimeout) {
  EXPECT_TRUE(MakesProgress(kStart, kStart, seconds(30)));
  EXPECT_TRUE(MakesProgress(kStart, kStart + seconds(30), seconds(30)));
  EXPECT_FALSE(MakesProgress(kStart, kStart + seconds(31), seconds(30)));
}

TEST(MakesProgressTest, WaitingForWorkIsNoStandstill) {
  EXPECT_TRUE(MakesProgress(std::nullopt, kStart + std::chrono::hours(1000), seconds(30)));
}

TEST(MakesProgressTest, AStepMayBeginWhileItIsLookedAt) {
  EXPECT_TRUE(MakesProgress(kStart + seconds(1), kStart, seconds(30)));
}

// An engine and a clock that stand still until the test moves them. The timeout is so short only
// for the watchdog to look often.
class WatchdogTest : public testing::Test {
 protected:
  static constexpr std::chrono::milliseconds kTimeout{4};

  Watchdog::Watched Watched() {
    return {.step_began =
                [this] {
                  absl::MutexLock lock(&mutex_);
                  ++looks_;
                  return step_began_;
                },
            .now =
                [this] {
                  absl::MutexLock lock(&mutex_);
                  return now_;
                },
            .health =
                [this] {
                  absl::MutexLock lock(&mutex_);
                  return health_;
                },
            .on_change =
                [this](bool progressing) {
                  absl::MutexLock lock(&mutex_);
                  changes_.push_back(progressing);
                }};
  }

  void Set(std::optional<SteadyTime> step_began, SteadyTime now) {
    absl::MutexLock lock(&mutex_);
    step_began_ = step_began;
    now_ = now;
  }

  void Fail(absl::Status health) {
    absl::MutexLock lock(&mutex_);
    health_ = std::move(health);
  }

  // Until the watchdog has seen what was set, and acted on it.
  void WaitForLooks() {
    absl::MutexLock lock(&mutex_);
    const int until = looks_ + 2;
    const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return looks_ >= until; };
    mutex_.Await(absl::Condition(&enough));
  }

  std::vector<bool> changes() {
    absl::MutexLock lock(&mutex_);
    return changes_;
  }

 private:
  absl::Mutex mutex_;
  std::optional<SteadyTime> step_began_ ABSL_GUARDED_BY(mutex_);
  SteadyTime now_ ABSL_GUARDED_BY(mutex_) = kStart;
  absl::Status health_ ABSL_GUARDED_BY(mutex_);
  int looks_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<bool> changes_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(WatchdogTest, TellsOnceWhenAStepHangsAndOnceWhenItMovesOn) {
  const Watchdog watchdog(Watched(), kTimeout);
  WaitForLooks();
  EXPECT_EQ(changes(), std::vector<bool>());

  Set(kStart, kStart + kTimeout);
  WaitForLooks();
  EXPECT_EQ(changes(), std::vector<bool>());

  Set(kStart, kStart + seconds(1));
  WaitForLooks();
  WaitForLooks();
  EXPECT_EQ(changes(), std::vector<bool>({false}));

  Set(kStart + seconds(1), kStart + seconds(1));
  WaitForLooks();
  EXPECT_EQ(changes(), std::vector<bool>({false, true}));
}

TEST_F(WatchdogTest, AnEngineWhoseDeviceFailedNeverMovesOn) {
  // Steps may take as long as they do; it looks once a second.
  const Watchdog watchdog(Watched(), std::chrono::nanoseconds(0));
  Fail(absl::UnavailableError("the device has failed"));
  Set(kStart, kStart + std::chrono::hours(1));
  WaitForLooks();
  EXPECT_EQ(changes(), std::vector<bool>({false}));
  Set(std::nullopt, kStart);
  WaitForLooks();
  EXPECT_EQ(changes(), std::vector<bool>({false}));
}

TEST_F(WatchdogTest, AnEngineThatIsIdleAgainMovesOn) {
  const Watchdog watchdog(Watched(), kTimeout);
  Set(kStart, kStart + seconds(1));
  WaitForLooks();
  Set(std::nullopt, kStart + seconds(100));
  WaitForLooks();
  EXPECT_EQ(changes(), std::vector<bool>({false, true}));
}

}  // namespace
}  // namespace tvq
