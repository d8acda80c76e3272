// A few threads that run what must not run where it arises: writes that the engine's loop has no
// time for, conversions that would hold up gRPC's threads.
#ifndef TVQ_SERVER_RPC_TASK_POOL_H_
#define TVQ_SERVER_RPC_TASK_POOL_H_

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace tvq {

// Any thread may call Schedule. Tasks start in order. The destructor runs what was scheduled.
class TaskPool {
 public:
  explicit TaskPool(int threads);
  ~TaskPool();
  TaskPool(const TaskPool&) = delete;
  TaskPool& operator=(const TaskPool&) = delete;

  void Schedule(std::function<void()> task);

 private:
  void Loop();

  absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // constant after construction
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_TASK_POOL_H_
