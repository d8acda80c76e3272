#include "server/startup/hang_ups.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "server/startup/shutdown_signals.h"

namespace tvq {
namespace {

class HangUpsTest : public testing::Test {
 protected:
  // Runs in a process of its own, in which signals are fresh, and exits with what `body` returns.
  template <typename Body>
  static void ExitsWith(int expected, Body body) {
    EXPECT_EXIT(
        {
          HangUps hang_ups;
          std::_Exit(body(hang_ups));
        },
        testing::ExitedWithCode(expected), "");
  }
  static void HangUp() { kill(getpid(), SIGHUP); }
  static void WaitFor(const std::atomic<int>& calls, int count) {
    while (calls < count) std::this_thread::yield();
  }
};

TEST_F(HangUpsTest, EachCalls) {
  ExitsWith(0, [](HangUps& hang_ups) {
    std::atomic<int> calls{0};
    hang_ups.Call([&] { ++calls; });
    for (int i = 1; i <= 3; ++i) {
      HangUp();
      WaitFor(calls, i);
    }
    return 0;
  });
}

TEST_F(HangUpsTest, WhatCameBeforeCallsOnce) {
  ExitsWith(0, [](HangUps& hang_ups) {
    HangUp();
    HangUp();
    std::atomic<int> calls{0};
    hang_ups.Call([&] { ++calls; });
    WaitFor(calls, 1);
    return 0;
  });
}

TEST_F(HangUpsTest, TheThreadsOfOtherSignalsDoNotDieOfIt) {
  EXPECT_EXIT(
      {
        ShutdownSignals shutdown;
        HangUps hang_ups;
        ShutdownSignals later;
        std::atomic<int> calls{0};
        hang_ups.Call([&] { ++calls; });
        for (int i = 1; i <= 3; ++i) {
          HangUp();
          WaitFor(calls, i);
        }
        std::_Exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(HangUpsTest, NobodyIsCalledAfterTheEnd) {
  ExitsWith(0, [](HangUps& hang_ups) {
    std::atomic<int> calls{0}, later{0};
    hang_ups.Call([&] { ++calls; });
    hang_ups.Call(nullptr);
    HangUp();
    hang_ups.Call([&] { ++later; });
    WaitFor(later, 1);
    return calls == 0 ? 0 : 1;
  });
}

}  // namespace
}  // namespace tvq
