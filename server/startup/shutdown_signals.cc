#include "server/startup/shutdown_signals.h"

#include <pthread.h>

#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

namespace tvq {

struct ShutdownSignals::Shared {
  std::mutex mutex;
  std::condition_variable came;
  // Guarded by mutex.
  bool armed = false;
  int first = 0;
  std::function<void()> on_second;

  void Receive(int signal) {
    const std::lock_guard lock(mutex);
    if (!armed) std::_Exit(128 + signal);  // as a shell reports a process that died of it
    if (first == 0) {
      first = signal;
      came.notify_all();
    } else if (on_second) {
      on_second();
    }
  }
};

ShutdownSignals::ShutdownSignals() : shared_(std::make_shared<Shared>()) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // Ends with the process: nothing but a signal wakes sigwait.
  std::thread([shared = shared_, signals] {
    while (true) {
      int signal = 0;
      if (sigwait(&signals, &signal) == 0) shared->Receive(signal);
    }
  }).detach();
}

void ShutdownSignals::Arm() {
  const std::lock_guard lock(shared_->mutex);
  shared_->armed = true;
}

int ShutdownSignals::Wait(std::function<void()> on_second) {
  std::unique_lock lock(shared_->mutex);
  shared_->on_second = std::move(on_second);
  shared_->came.wait(lock, [this] { return shared_->first != 0; });
  return shared_->first;
}

void ShutdownSignals::Disarm() {
  const std::lock_guard lock(shared_->mutex);
  shared_->on_second = nullptr;
}

}  // namespace tvq
