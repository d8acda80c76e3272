// A few threads that run what must not run where it arises: large conversions, which would hold up
// the engine's loop or the threads of calls, and what waits for disk or network.
#ifndef TVQ_SERVER_RPC_TRANSPORT_TASK_POOL_H_
#define TVQ_SERVER_RPC_TRANSPORT_TASK_POOL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/rpc/limits/byte_quota.h"

namespace tvq {

// Any thread may schedule. The destructor runs what was scheduled.
class TaskPool {
 public:
  enum class Order {
    kArrival,
    // A task overtakes those that wait and have more bytes, unless as many bytes as it has fewer
    // have begun since they came: large ones wait, but not for ever.
    kShortFirst,
  };

  // `bytes` bounds what the tasks that TrySchedule took, and that have not run, keep in memory;
  // null: no such tasks. It must outlive the pool. With `short_bytes` one thread more runs only
  // those that have at most so many, however long all others take.
  explicit TaskPool(int threads, ByteQuota* bytes = nullptr, Order order = Order::kArrival,
                    size_t short_bytes = 0);
  ~TaskPool();
  TaskPool(const TaskPool&) = delete;
  TaskPool& operator=(const TaskPool&) = delete;

  void Schedule(std::function<void()> task);
  // For a task that keeps `bytes` for `owner`. An error of the quota, and the task is dropped, if
  // there is no room for them.
  absl::Status TrySchedule(const std::string& owner, size_t bytes, std::function<void()> task);

 private:
  struct Task {
    uint64_t due = 0;     // begun_bytes_ by which it is to begin; 0 in the order of arrival
    uint64_t number = 0;  // in the order of arrival
    size_t bytes = 0;
    ByteQuota::Share share;
    std::function<void()> run;
    // Of a heap whose top begins first.
    bool operator<(const Task& other) const {
      return std::pair(due, number) > std::pair(other.due, other.number);
    }
  };

  void Add(Task task, std::vector<Task>* tasks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The heap of the task that begins next, on a thread for short ones alone or for all; null: there
  // is none.
  std::vector<Task>* Next(bool short_only) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Loop(bool short_only);

  ByteQuota* const quota_;
  const Order order_;
  const size_t short_bytes_;
  absl::Mutex mutex_;
  // Heaps.
  std::vector<Task> short_tasks_ ABSL_GUARDED_BY(mutex_);
  std::vector<Task> other_tasks_ ABSL_GUARDED_BY(mutex_);  // those of unknown length among them
  uint64_t scheduled_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t begun_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // constant after construction
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_TRANSPORT_TASK_POOL_H_
