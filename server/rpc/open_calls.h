#ifndef TVQ_SERVER_RPC_OPEN_CALLS_H_
#define TVQ_SERVER_RPC_OPEN_CALLS_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace tvq {

// How many of our calls still have something to send. gRPC counts all calls, also the health
// service's Watch streams, which end only with the server. Any thread.
class OpenCalls {
 public:
  void Begin() {
    absl::MutexLock lock(&mutex_);
    ++count_;
  }
  void End() {
    absl::MutexLock lock(&mutex_);
    --count_;
  }
  // Returns when there is none, or at `until`.
  void WaitForNone(absl::Time until) {
    absl::MutexLock lock(&mutex_);
    const auto none = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return count_ == 0; };
    mutex_.AwaitWithDeadline(absl::Condition(&none), until);
  }

 private:
  absl::Mutex mutex_;
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_OPEN_CALLS_H_
