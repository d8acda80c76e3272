// Something done again and again.
#ifndef TVQ_BASE_TICKER_H_
#define TVQ_BASE_TICKER_H_

#include <chrono>
#include <functional>
#include <thread>

#include "base/mutex.h"

namespace tvq {

// Calls `tick` on a thread of its own, with `period` between the calls. Waits on the steady clock:
// a wall clock that is set does not hold it up.
class Ticker {
 public:
  Ticker(std::chrono::milliseconds period, std::function<void()> tick);
  ~Ticker();  // waits for the call under way
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

 private:
  void Loop();

  const std::chrono::milliseconds period_;
  const std::function<void()> tick_;
  Mutex mutex_;
  Changed changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tvq

#endif  // TVQ_BASE_TICKER_H_
