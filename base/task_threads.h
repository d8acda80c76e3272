// A few threads that run what must not run where it arises: what would hold up a loop, or waits for
// disk or network.
#ifndef TVQ_BASE_TASK_THREADS_H_
#define TVQ_BASE_TASK_THREADS_H_

#include <cstddef>
#include <thread>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "base/mutex.h"
#include "base/task_turns.h"

namespace tvq {

// Owners of tasks take turns (TaskTurns). Any thread may schedule; tasks do not throw.
template <typename Owner = std::monostate>
class TaskThreads {
 public:
  using Task = absl::AnyInvocable<void()>;
  using Turns = TaskTurns<Owner, Task>;
  using Order = typename Turns::Order;

  struct Options {
    int threads = 1;
    int most_of_owner = 0;  // of them, those that one owner may have at once; 0: all
    Order order = Order::kArrival;
    bool short_thread = false;  // one more, which runs only short tasks
  };

  explicit TaskThreads(const Options& options)
      : limited_(options.most_of_owner > 0), turns_(options.order, options.most_of_owner) {
    for (int i = 0; i < options.threads; ++i) {
      threads_.emplace_back([this] { Loop(/*short_only=*/false); });
    }
    running_ = options.threads;
    if (options.short_thread) threads_.emplace_back([this] { Loop(/*short_only=*/true); });
  }
  ~TaskThreads() { Stop(); }
  TaskThreads(const TaskThreads&) = delete;
  TaskThreads& operator=(const TaskThreads&) = delete;

  // Work on so many bytes. False, and the task is dropped, once the threads that run any task have
  // ended after Stop.
  bool Schedule(const Owner& owner, size_t bytes, bool is_short, Task task) {
    const MutexLock lock(&mutex_);
    if (stopping_ && running_ == 0) return false;
    turns_.Add(owner, bytes, is_short, std::move(task));
    changed_.NotifyOne();
    if (is_short) short_changed_.NotifyOne();
    return true;
  }
  // Of no owner, in the order of arrival.
  bool Schedule(Task task) { return Schedule(Owner(), 0, false, std::move(task)); }

  // Runs what was scheduled, and returns. Not from a task.
  void Stop() {
    {
      const MutexLock lock(&mutex_);
      stopping_ = true;
      NotifyAll();
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  void NotifyAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    changed_.Notify();
    short_changed_.Notify();
  }

  void Loop(bool short_only) {
    const auto ready = [this, short_only]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return turns_.MayBegin(short_only) || (stopping_ && turns_.empty(short_only));
    };
    while (true) {
      const Owner* owner = nullptr;
      Task task;
      {
        const MutexLock lock(&mutex_);
        (short_only ? short_changed_ : changed_).Await(&mutex_, ready);
        if (!turns_.MayBegin(short_only)) {
          if (!short_only) --running_;
          return;
        }
        std::tie(owner, task) = turns_.Begin(short_only);
        if (stopping_) NotifyAll();  // there may be nothing left to wait for
      }
      task();
      task = nullptr;  // before its owner may have another
      const MutexLock lock(&mutex_);
      turns_.End(owner);
      if (limited_) NotifyAll();  // the owner's next task may be another thread's
    }
  }

  const bool limited_;
  Mutex mutex_;
  Changed changed_;        // for the threads that run any task
  Changed short_changed_;  // for the one that runs short ones
  Turns turns_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;  // threads that run any task, and have not ended
  std::vector<std::thread> threads_;         // used by the constructor and the thread that stops
};

}  // namespace tvq

#endif  // TVQ_BASE_TASK_THREADS_H_
