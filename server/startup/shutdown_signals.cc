#include "server/startup/shutdown_signals.h"

#include <csignal>
#include <cstdlib>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "server/startup/signal_thread.h"

namespace tvq {

struct ShutdownSignals::Shared {
  Mutex mutex;
  Changed came;
  bool armed ABSL_GUARDED_BY(mutex) = false;
  int first ABSL_GUARDED_BY(mutex) = 0;  // signal
  std::optional<Shutdown> shutdown ABSL_GUARDED_BY(mutex);
  std::function<void()> on_second ABSL_GUARDED_BY(mutex);

  void Begin(const Shutdown& wanted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (shutdown) return;
    shutdown = wanted;
    came.Notify();
  }

  void Receive(int signal) {
    const MutexLock lock(&mutex);
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
  const MutexLock lock(&shared_->mutex);
  shared_->armed = true;
}

void ShutdownSignals::Order(const DrainOrder& order) {
  const MutexLock lock(&shared_->mutex);
  shared_->Begin({.order = order});
}

Shutdown ShutdownSignals::Wait(std::function<void()> on_second) {
  Shared& shared = *shared_;
  const MutexLock lock(&shared.mutex);
  shared.on_second = std::move(on_second);
  shared.came.Await(&shared.mutex, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared.mutex) {
    return shared.shutdown.has_value();
  });
  return *shared.shutdown;
}

void ShutdownSignals::Disarm() {
  const MutexLock lock(&shared_->mutex);
  shared_->on_second = nullptr;
}

}  // namespace tvq
