#ifndef TVQ_SERVER_RPC_OPEN_CALLS_H_
#define TVQ_SERVER_RPC_OPEN_CALLS_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace tvq {

// How many of our calls still have something to send. gRPC counts all calls, also the health
// service's Watch streams, which end only with the server. Any thread.
class OpenCalls {
 public:
  void Begin() {
    const std::lock_guard lock(mutex_);
    ++count_;
  }
  void End() {
    const std::lock_guard lock(mutex_);
    if (--count_ == 0) none_.notify_all();
  }
  // Returns when there is none, or at `until`.
  void WaitForNone(std::chrono::steady_clock::time_point until) {
    std::unique_lock lock(mutex_);
    none_.wait_until(lock, until, [this] { return count_ == 0; });
  }

 private:
  // Not Abseil's, whose waits end by the time of day.
  std::mutex mutex_;
  std::condition_variable none_;
  int64_t count_ = 0;  // guarded by mutex_
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_OPEN_CALLS_H_
