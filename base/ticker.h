// Something done again and again.
#ifndef TVQ_BASE_TICKER_H_
#define TVQ_BASE_TICKER_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

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
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace tvq

#endif  // TVQ_BASE_TICKER_H_
