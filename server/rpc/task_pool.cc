#include "server/rpc/task_pool.h"

#include <algorithm>
#include <utility>

namespace tvq {

TaskPool::TaskPool(int threads, size_t max_bytes, Order order)
    : max_bytes_(max_bytes), order_(order) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
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
  Add(0, std::move(task));
}

bool TaskPool::TrySchedule(size_t bytes, std::function<void()> task) {
  absl::MutexLock lock(&mutex_);
  if (bytes_ > 0 && (bytes_ >= max_bytes_ || bytes > max_bytes_ - bytes_)) return false;
  bytes_ += bytes;
  Add(bytes, std::move(task));
  return true;
}

void TaskPool::Add(size_t bytes, std::function<void()> task) {
  const uint64_t due = order_ == Order::kArrival ? 0 : begun_bytes_ + bytes;
  tasks_.push_back({due, scheduled_++, bytes, std::move(task)});
  std::push_heap(tasks_.begin(), tasks_.end());
}

void TaskPool::Loop() {
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !tasks_.empty();
  };
  while (true) {
    Task task;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&ready));
      if (tasks_.empty()) return;
      std::pop_heap(tasks_.begin(), tasks_.end());
      task = std::move(tasks_.back());
      tasks_.pop_back();
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
