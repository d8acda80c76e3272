// A few threads that run what must not run where it arises: writes that the engine's loop has no
// time for, conversions that would hold up gRPC's threads.
#ifndef TVQ_SERVER_RPC_TASK_POOL_H_
#define TVQ_SERVER_RPC_TASK_POOL_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <limits>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace tvq {

// Any thread may schedule. Tasks start in order. The destructor runs what was scheduled.
class TaskPool {
 public:
  // `max_bytes` bounds what the tasks that TrySchedule took, and that have not run, keep in memory.
  explicit TaskPool(int threads, size_t max_bytes = std::numeric_limits<size_t>::max());
  ~TaskPool();
  TaskPool(const TaskPool&) = delete;
  TaskPool& operator=(const TaskPool&) = delete;

  void Schedule(std::function<void()> task);
  // For a task that keeps `bytes`. False, and the task is dropped, if there is no room for them; a
  // task larger than all the room finds it when nothing else is there.
  [[nodiscard]] bool TrySchedule(size_t bytes, std::function<void()> task);

 private:
  struct Task {
    size_t bytes;
    std::function<void()> run;
  };

  void Loop();

  const size_t max_bytes_;
  absl::Mutex mutex_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of the tasks that wait or run
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // constant after construction
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_TASK_POOL_H_
