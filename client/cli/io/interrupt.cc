#include "client/cli/io/interrupt.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

namespace tvq::cli {
namespace {

[[noreturn]] void End() {
  // Behind the ^C that the terminal shows. Not through stdio, which another thread may hold.
  if (isatty(STDERR_FILENO) == 1) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, "\n", 1);
  }
  std::_Exit(128 + SIGINT);
}

}  // namespace

struct Interrupt::Shared {
  std::mutex mutex;
  // Guarded by mutex.
  std::function<void()> cancel;
  bool happened = false;

  void Receive() {
    const std::lock_guard lock(mutex);
    if (happened || !cancel) End();
    happened = true;
    cancel();
  }
};

Interrupt::Interrupt() : shared_(std::make_shared<Shared>()) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // Ends with the process: nothing but a signal wakes sigwait.
  std::thread([shared = shared_, signals] {
    while (true) {
      int signal = 0;
      if (sigwait(&signals, &signal) == 0) shared->Receive();
    }
  }).detach();
}

Interrupt::Guard::Guard(Interrupt& interrupt, std::function<void()> cancel)
    : interrupt_(interrupt) {
  Shared& shared = *interrupt_.shared_;
  const std::lock_guard lock(shared.mutex);
  outer_ = std::exchange(shared.cancel, std::move(cancel));
  if (!outer_) shared.happened = false;
  if (shared.happened) shared.cancel();
}

Interrupt::Guard::~Guard() {
  const std::lock_guard lock(interrupt_.shared_->mutex);
  interrupt_.shared_->cancel = std::move(outer_);
}

bool Interrupt::happened() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->happened;
}

}  // namespace tvq::cli
