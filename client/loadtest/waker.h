#ifndef TVQ_CLIENT_LOADTEST_WAKER_H_
#define TVQ_CLIENT_LOADTEST_WAKER_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

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
  std::mutex mutex_;
  std::condition_variable changed_;
  Time time_ = Time::max();  // guarded by mutex_
  bool stopping_ = false;    // guarded by mutex_
  std::thread thread_;
};

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_WAKER_H_
