#ifndef TVQ_CLIENT_LOADTEST_WAKER_H_
#define TVQ_CLIENT_LOADTEST_WAKER_H_

#include <chrono>
#include <functional>
#include <thread>

#include "base/mutex.h"

namespace tvq::loadtest {

// Calls `wake` in a thread of its own at a time, to some 50 us: a completion queue's own deadlines
// are rounded up to whole milliseconds, which would show in latencies that count from a request's
// due time.
class Waker {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit Waker(std::function<void()> wake);
  ~Waker();

  // Replaces the time set before; Time::max(): never. Each time set is for one call.
  void Set(Time time);

 private:
  void Run();

  const std::function<void()> wake_;
  Mutex mutex_;
  Changed changed_;
  Time time_ ABSL_GUARDED_BY(mutex_) = Time::max();
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_WAKER_H_
