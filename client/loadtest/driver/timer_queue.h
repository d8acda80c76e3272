#ifndef TVQ_CLIENT_LOADTEST_DRIVER_TIMER_QUEUE_H_
#define TVQ_CLIENT_LOADTEST_DRIVER_TIMER_QUEUE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "client/loadtest/workload/time.h"

namespace tvq::loadtest {

// Callbacks by time; those of one time in the order they were added. One thread.
class TimerQueue {
 public:
  void Add(Nanos time, std::function<void()> callback) {
    timers_.push({time, number_++, std::move(callback)});
  }
  std::optional<Nanos> next() const {
    if (timers_.empty()) return std::nullopt;
    return timers_.top().time;
  }
  // The next callback if it is due; nothing otherwise.
  std::function<void()> PopDue(Nanos now) {
    if (timers_.empty() || timers_.top().time > now) return nullptr;
    std::function<void()> callback = timers_.top().callback;
    timers_.pop();
    return callback;
  }
  void Clear() { timers_ = {}; }

 private:
  struct Timer {
    Nanos time;
    uint64_t number;
    std::function<void()> callback;
    bool operator<(const Timer& other) const {
      return std::pair(other.time, other.number) < std::pair(time, number);
    }
  };

  std::priority_queue<Timer> timers_;
  uint64_t number_ = 0;
};

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_DRIVER_TIMER_QUEUE_H_
