// The server's tasks: TaskThreads, with a bound on what the tasks that wait keep in memory.
#ifndef TVQ_SERVER_RPC_TRANSPORT_TASK_POOL_H_
#define TVQ_SERVER_RPC_TRANSPORT_TASK_POOL_H_

#include <cstddef>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "base/task_threads.h"
#include "server/rpc/limits/byte_quota.h"

namespace tvq {

// For large conversions, which would hold up the engine's loop or the threads of calls, and for
// what waits for disk or network. The destructor runs what was scheduled. Thread-safe.
class TaskPool {
 public:
  using Order = TaskThreads<std::string>::Order;

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

  // `bytes`: what the task works on. They are counted elsewhere, not by the quota.
  void Schedule(const std::string& owner, std::function<void()> task, size_t bytes = 0);
  // For a task that keeps `bytes` for `owner`. An error of the quota, and the task is dropped, if
  // there is no room for them.
  absl::Status TrySchedule(const std::string& owner, size_t bytes, std::function<void()> task);

 private:
  const Options options_;
  TaskThreads<std::string> threads_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_TRANSPORT_TASK_POOL_H_
