#include "client/cli/io/interrupt.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <thread>
#include <utility>

#include "base/mutex.h"

namespace tvq::cli {
namespace {

[[noreturn]] void End(int signal) {
  if (signal != SIGINT) {  // as if nobody had waited for it
    std::signal(signal, SIG_DFL);
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, signal);
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    raise(signal);
  }
  // Behind the ^C that the terminal shows. Not through stdio, which another thread may hold.
  if (isatty(STDERR_FILENO) == 1) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, "\n", 1);
  }
  std::_Exit(128 + SIGINT);
}

bool IsIgnored(int signal) {
  struct sigaction action;
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

struct Interrupt::Shared {
  Mutex mutex;
  std::function<void()> cancel ABSL_GUARDED_BY(mutex), last ABSL_GUARDED_BY(mutex);
  bool happened ABSL_GUARDED_BY(mutex) = false;

  void Receive(int signal) {
    const MutexLock lock(&mutex);
    if (signal != SIGINT || happened || !cancel) {
      if (cancel) cancel();  // or the call in progress may be in the way of what is still to do
      if (last) last();
      End(signal);
    }
    happened = true;
    cancel();
  }
};

Interrupt::Interrupt() : shared_(std::make_shared<Shared>()) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  for (const int signal : {SIGHUP, SIGTERM}) {
    if (!IsIgnored(signal)) sigaddset(&signals, signal);
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // Ends with the process: nothing but a signal wakes sigwait.
  std::thread([shared = shared_, signals] {
    while (true) {
      int signal = 0;
      if (sigwait(&signals, &signal) == 0) shared->Receive(signal);
    }
  }).detach();
}

Interrupt::Guard::Guard(Interrupt& interrupt, std::function<void()> cancel)
    : interrupt_(interrupt) {
  Shared& shared = *interrupt_.shared_;
  const MutexLock lock(&shared.mutex);
  outer_ = std::exchange(shared.cancel, std::move(cancel));
  if (!outer_) shared.happened = false;
  if (shared.happened) shared.cancel();
}

Interrupt::Guard::~Guard() {
  const MutexLock lock(&interrupt_.shared_->mutex);
  interrupt_.shared_->cancel = std::move(outer_);
}

void Interrupt::AtEnd(std::function<void()> last) {
  const MutexLock lock(&shared_->mutex);
  shared_->last = std::move(last);
}

bool Interrupt::happened() const {
  const MutexLock lock(&shared_->mutex);
  return shared_->happened;
}

}  // namespace tvq::cli
