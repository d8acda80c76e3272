#include "server/sessions/movers.h"

#include <utility>

namespace tvq {

Movers::Movers(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
}

bool Movers::Schedule(std::function<void()> task) {
  const absl::MutexLock lock(&mutex_);
  if (stopping_) return false;
  tasks_.push_back(std::move(task));
  return true;
}

void Movers::Stop() {
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
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
      const absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&ready));
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace tvq
