#include "server/startup/hang_ups.h"

#include <csignal>
#include <utility>

#include "base/mutex.h"
#include "server/startup/signal_thread.h"

namespace tvq {

struct HangUps::Shared {
  Mutex mutex;
  std::function<void()> reload ABSL_GUARDED_BY(mutex);
  bool came ABSL_GUARDED_BY(mutex) = false;  // and nothing was called

  void Receive() {
    const MutexLock lock(&mutex);
    came = true;
    Answer();
  }

  void Answer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (!came || !reload) return;
    came = false;
    reload();
  }
};

HangUps::HangUps() : shared_(std::make_shared<Shared>()) {
  ReceiveSignals({SIGHUP}, [shared = shared_](int) { shared->Receive(); });
}

void HangUps::Call(std::function<void()> reload) {
  const MutexLock lock(&shared_->mutex);
  shared_->reload = std::move(reload);
  shared_->Answer();
}

}  // namespace tvq
