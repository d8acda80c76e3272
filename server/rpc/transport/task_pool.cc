#include "server/rpc/transport/task_pool.h"

#include <algorithm>
#include <utility>

namespace tvq {

TaskPool::TaskPool(int threads, ByteQuota* bytes, Order order, size_t short_bytes)
    : quota_(bytes), order_(order), short_bytes_(short_bytes) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Loop(/*short_only=*/false); });
  }
  if (short_bytes > 0) threads_.emplace_back([this] { Loop(/*short_only=*/true); });
}

TaskPool::~TaskPool() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void TaskPool::Schedule(std::function<void()> task) {
  absl::MutexLock lock(&mutex_);
  Add({.run = std::move(task)}, &other_tasks_);
}

absl::Status TaskPool::TrySchedule(const std::string& owner, size_t bytes,
                                   std::function<void()> task) {
  ByteQuota::Share share(quota_, owner);
  if (auto status = share.Add(static_cast<int64_t>(bytes)); !status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  Add({.bytes = bytes, .share = std::move(share), .run = std::move(task)},
      bytes <= short_bytes_ ? &short_tasks_ : &other_tasks_);
  return absl::OkStatus();
}

void TaskPool::Add(Task task, std::vector<Task>* tasks) {
  task.due = order_ == Order::kArrival ? 0 : begun_bytes_ + task.bytes;
  task.number = scheduled_++;
  tasks->push_back(std::move(task));
  std::push_heap(tasks->begin(), tasks->end());
}

std::vector<TaskPool::Task>* TaskPool::Next(bool short_only) {
  if (short_only || other_tasks_.empty()) return short_tasks_.empty() ? nullptr : &short_tasks_;
  if (short_tasks_.empty()) return &other_tasks_;
  return other_tasks_.front() < short_tasks_.front() ? &short_tasks_ : &other_tasks_;
}

void TaskPool::Loop(bool short_only) {
  const auto ready = [this, short_only]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || Next(short_only) != nullptr;
  };
  while (true) {
    Task task;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&ready));
      std::vector<Task>* const tasks = Next(short_only);
      if (tasks == nullptr) return;
      std::pop_heap(tasks->begin(), tasks->end());
      task = std::move(tasks->back());
      tasks->pop_back();
      begun_bytes_ += task.bytes;
    }
    task.run();
    task.run = nullptr;  // before its bytes are given back
  }
}

}  // namespace tvq
