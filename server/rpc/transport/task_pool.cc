#include "server/rpc/transport/task_pool.h"

#include <algorithm>
#include <utility>

namespace tvq {

TaskPool::TaskPool(int threads, size_t max_bytes, Order order, size_t short_bytes)
    : max_bytes_(max_bytes), order_(order), short_bytes_(short_bytes) {
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
  Add(0, std::move(task), &other_tasks_);
}

bool TaskPool::TrySchedule(size_t bytes, std::function<void()> task) {
  absl::MutexLock lock(&mutex_);
  if (bytes_ > 0 && (bytes_ >= max_bytes_ || bytes > max_bytes_ - bytes_)) return false;
  bytes_ += bytes;
  Add(bytes, std::move(task), bytes <= short_bytes_ ? &short_tasks_ : &other_tasks_);
  return true;
}

void TaskPool::Add(size_t bytes, std::function<void()> task, std::vector<Task>* tasks) {
  const uint64_t due = order_ == Order::kArrival ? 0 : begun_bytes_ + bytes;
  tasks->push_back({due, scheduled_++, bytes, std::move(task)});
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
    task.run = nullptr;
    if (task.bytes == 0) continue;
    absl::MutexLock lock(&mutex_);
    bytes_ -= task.bytes;
  }
}

}  // namespace tvq
