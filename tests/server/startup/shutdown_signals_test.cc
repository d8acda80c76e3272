#include "server/startup/shutdown_signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

namespace tvq {
namespace {

class ShutdownSignalsTest : public testing::Test {
 protected:
  // Runs in a process of its own, in which signals are fresh, and exits with what `body` returns.
  template <typename Body>
  static void ExitsWith(int expected, Body body) {
    EXPECT_EXIT(
        {
          ShutdownSignals signals;
          std::_Exit(body(signals));
        },
        testing::ExitedWithCode(expected), "");
  }
};

TEST_F(ShutdownSignalsTest, BeforeArmASignalEndsTheProcess) {
  ExitsWith(128 + SIGTERM, [](ShutdownSignals&) {
    kill(getpid(), SIGTERM);
    pause();
    return 0;
  });
}

TEST_F(ShutdownSignalsTest, WaitReturnsTheSignal) {
  ExitsWith(0, [](ShutdownSignals& signals) {
    signals.Arm();
    kill(getpid(), SIGINT);
    return signals.Wait(nullptr).signal == SIGINT ? 0 : 1;
  });
}

TEST_F(ShutdownSignalsTest, WaitReturnsTheOrder) {
  ExitsWith(0, [](ShutdownSignals& signals) {
    signals.Arm();
    std::thread orders([&] {
      signals.Order({.timeout = std::chrono::seconds(7)});
      signals.Order({.timeout = std::chrono::seconds(8)});
    });
    const Shutdown shutdown = signals.Wait(nullptr);
    orders.join();
    const Shutdown again = signals.Wait(nullptr);
    return shutdown.signal == 0 && shutdown.order.timeout == std::chrono::seconds(7) &&
                   again.order.timeout == std::chrono::seconds(7)
               ? 0
               : 1;
  });
}

// After an order two signals are needed to end at once, as without it.
TEST_F(ShutdownSignalsTest, OnlyTheSecondSignalIsTheSecond) {
  ExitsWith(0, [](ShutdownSignals& signals) {
    signals.Arm();
    signals.Order({});
    std::atomic<int> seconds{0};
    if (signals.Wait([&] { ++seconds; }).signal != 0) return 1;
    kill(getpid(), SIGTERM);
    while (true) {
      sigset_t pending;
      sigpending(&pending);
      if (sigismember(&pending, SIGTERM) == 0) break;
      std::this_thread::yield();
    }
    if (seconds != 0) return 2;
    kill(getpid(), SIGINT);
    while (seconds == 0) std::this_thread::yield();
    signals.Disarm();
    return seconds == 1 ? 0 : 3;
  });
}

}  // namespace
}  // namespace tvq
