#include "server/sessions/durable/movers.h"

#include <utility>

namespace tvq {

Movers::Movers(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
}

bool Movers::Schedule(std::function<void()> task) {
  const MutexLock lock(&mutex_);
  if (stopping_) return false;
  tasks_.push_back(std::move(task));
  changed_.Notify();
  return true;
}

void Movers::Stop() {
  {
    const MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.Notify();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Movers::Loop() {
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !tasks_.empty();
  };
  for (;;) {
    std::function<void()> task;
    {
      const MutexLock lock(&mutex_);
      changed_.Await(&mutex_, ready);
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace tvq
