// A few threads that run what must not run where it arises: large conversions, which would hold up
// the engine's loop or the threads of calls, and what waits for disk or network.
#ifndef TVQ_SERVER_RPC_TRANSPORT_TASK_POOL_H_
#define TVQ_SERVER_RPC_TRANSPORT_TASK_POOL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/task_turns.h"
#include "server/rpc/limits/byte_quota.h"

namespace tvq {

// Owners of tasks take turns (TaskTurns). Any thread may schedule. The destructor runs what was
// scheduled.
class TaskPool {
  struct Task {
    ByteQuota::Share share;
    std::function<void()> run;
  };
  using Turns = TaskTurns<std::string, Task>;

 public:
  using Order = Turns::Order;

  struct Options {
    int threads = 1;
    // Of them, those that one owner may have at once; 0: all.
    int most_of_owner = 0;
    // Bounds what the tasks that TrySchedule took, and that have not run, keep in memory; null: no
    // such tasks. It must outlive the pool.
    ByteQuota* bytes = nullptr;
    Order order = Order::kArrival;
    // If above 0, one thread more runs only tasks that have at most so many, however long all
    // others take.
    size_t short_bytes = 0;
  };

  explicit TaskPool(const Options& options);
  ~TaskPool();
  TaskPool(const TaskPool&) = delete;
  TaskPool& operator=(const TaskPool&) = delete;

  // Of a task that `bytes` are worked on, which something else counts.
  void Schedule(const std::string& owner, std::function<void()> task, size_t bytes = 0);
  // For a task that keeps `bytes` for `owner`. An error of the quota, and the task is dropped, if
  // there is no room for them.
  absl::Status TrySchedule(const std::string& owner, size_t bytes, std::function<void()> task);

 private:
  void Loop(bool short_only);

  const Options options_;
  absl::Mutex mutex_;
  Turns turns_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // constant after construction
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_TRANSPORT_TASK_POOL_H_
