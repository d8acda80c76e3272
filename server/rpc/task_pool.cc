#include "server/rpc/task_pool.h"

#include <utility>

namespace tvq {

TaskPool::TaskPool(int threads, size_t max_bytes) : max_bytes_(max_bytes) {
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
  tasks_.push_back({0, std::move(task)});
}

bool TaskPool::TrySchedule(size_t bytes, std::function<void()> task) {
  absl::MutexLock lock(&mutex_);
  if (bytes_ > 0 && (bytes_ >= max_bytes_ || bytes > max_bytes_ - bytes_)) return false;
  bytes_ += bytes;
  tasks_.push_back({bytes, std::move(task)});
  return true;
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
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task.run();
    task.run = nullptr;
    if (task.bytes == 0) continue;
    absl::MutexLock lock(&mutex_);
    bytes_ -= task.bytes;
  }
}

}  // namespace tvq
