// Threads that move states, so that neither the engine's loop nor a caller has to.
#ifndef TVQ_SERVER_SESSIONS_DURABLE_MOVERS_H_
#define TVQ_SERVER_SESSIONS_DURABLE_MOVERS_H_

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace tvq {

// Any thread may schedule. Tasks start in order.
class Movers {
 public:
  explicit Movers(int threads);
  ~Movers() { Stop(); }
  Movers(const Movers&) = delete;
  Movers& operator=(const Movers&) = delete;

  // False, and the task is dropped, after Stop.
  [[nodiscard]] bool Schedule(std::function<void()> task);
  // Runs what was scheduled and returns. Not from a task.
  void Stop();

 private:
  void Loop();

  Mutex mutex_;
  Changed changed_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // used by the constructor and the thread that stops
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_DURABLE_MOVERS_H_
