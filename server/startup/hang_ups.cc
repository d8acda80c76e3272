#include "server/startup/hang_ups.h"

#include <csignal>
#include <mutex>
#include <utility>

#include "server/startup/signal_thread.h"

namespace tvq {

struct HangUps::Shared {
  std::mutex mutex;
  // Guarded by mutex.
  std::function<void()> reload;
  bool came = false;  // and nothing was called

  void Receive() {
    const std::lock_guard lock(mutex);
    came = true;
    Answer();
  }

  void Answer() {
    if (!came || !reload) return;
    came = false;
    reload();
  }
};

HangUps::HangUps() : shared_(std::make_shared<Shared>()) {
  ReceiveSignals({SIGHUP}, [shared = shared_](int) { shared->Receive(); });
}

void HangUps::Call(std::function<void()> reload) {
  const std::lock_guard lock(shared_->mutex);
  shared_->reload = std::move(reload);
  shared_->Answer();
}

}  // namespace tvq
