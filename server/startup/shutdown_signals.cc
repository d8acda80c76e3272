#include "server/startup/shutdown_signals.h"

#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <utility>

#include "server/startup/signal_thread.h"

namespace tvq {

struct ShutdownSignals::Shared {
  std::mutex mutex;
  std::condition_variable came;
  // Guarded by mutex.
  bool armed = false;
  int first = 0;  // signal
  std::optional<Shutdown> shutdown;
  std::function<void()> on_second;

  void Begin(const Shutdown& wanted) {
    if (shutdown) return;
    shutdown = wanted;
    came.notify_all();
  }

  void Receive(int signal) {
    const std::lock_guard lock(mutex);
    if (!armed) std::_Exit(128 + signal);  // as a shell reports a process that died of it
    if (first == 0) {
      first = signal;
      Begin({.signal = signal});
    } else if (on_second) {
      on_second();
    }
  }
};

ShutdownSignals::ShutdownSignals() : shared_(std::make_shared<Shared>()) {
  ReceiveSignals({SIGTERM, SIGINT}, [shared = shared_](int signal) { shared->Receive(signal); });
}

void ShutdownSignals::Arm() {
  const std::lock_guard lock(shared_->mutex);
  shared_->armed = true;
}

void ShutdownSignals::Order(const DrainOrder& order) {
  const std::lock_guard lock(shared_->mutex);
  shared_->Begin({.order = order});
}

Shutdown ShutdownSignals::Wait(std::function<void()> on_second) {
  std::unique_lock lock(shared_->mutex);
  shared_->on_second = std::move(on_second);
  shared_->came.wait(lock, [this] { return shared_->shutdown.has_value(); });
  return *shared_->shutdown;
}

void ShutdownSignals::Disarm() {
  const std::lock_guard lock(shared_->mutex);
  shared_->on_second = nullptr;
}

}  // namespace tvq
