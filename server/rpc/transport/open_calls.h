#ifndef TVQ_SERVER_RPC_TRANSPORT_OPEN_CALLS_H_
#define TVQ_SERVER_RPC_TRANSPORT_OPEN_CALLS_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stop_token>

#include "base/mutex.h"

namespace tvq {

// How many of our calls still have something to do or to send. gRPC counts all calls, also the
// health service's Watch streams, which end only with the server. Any thread.
class OpenCalls {
 public:
  // Whether a call began before WaitForWork was called, or while it waits.
  enum class Came { kBefore, kLate };

  // Every call does all three, once.
  Came Begin() {
    const MutexLock lock(&mutex_);
    ++open_;
    ++Working(now_);
    return now_;
  }
  // Nothing is left to do but for the client, who may read what was written.
  void Worked(Came came) {
    const MutexLock lock(&mutex_);
    if (--Working(came) == 0) changed_.Notify();
  }
  void End() {
    const MutexLock lock(&mutex_);
    if (--open_ == 0) changed_.Notify();
  }

  // Returns when the calls that are open now have worked, at `until`, or when `stop` is requested.
  // Later ones, as of a client that asks again and again, do not count.
  void WaitForWork(std::chrono::steady_clock::time_point until, const std::stop_token& stop) {
    const std::stop_callback wake(stop, [this] {
      const MutexLock lock(&mutex_);
      changed_.Notify();
    });
    const MutexLock lock(&mutex_);
    now_ = Came::kLate;
    changed_.AwaitUntil(&mutex_, until, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return Working(Came::kBefore) == 0 || stop.stop_requested();
    });
  }
  // Returns when there is none, or at `until`.
  void WaitForNone(std::chrono::steady_clock::time_point until) {
    const MutexLock lock(&mutex_);
    changed_.AwaitUntil(&mutex_, until,
                        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return open_ == 0; });
  }

 private:
  int64_t& Working(Came came) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return working_[static_cast<size_t>(came)];
  }

  Mutex mutex_;
  Changed changed_;
  int64_t open_ ABSL_GUARDED_BY(mutex_) = 0;
  std::array<int64_t, 2> working_ ABSL_GUARDED_BY(mutex_){};
  Came now_ ABSL_GUARDED_BY(mutex_) = Came::kBefore;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_TRANSPORT_OPEN_CALLS_H_
