#include "client/gateway/api/side_threads.h"

#include <algorithm>
#include <utility>

namespace tvq::gateway {

SideThreads::SideThreads(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
}

SideThreads::~SideThreads() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void SideThreads::Schedule(size_t bytes, absl::AnyInvocable<void()> task) {
  absl::MutexLock lock(&mutex_);
  tasks_.push_back({begun_bytes_ + bytes, scheduled_++, bytes, std::move(task)});
  std::push_heap(tasks_.begin(), tasks_.end());
}

void SideThreads::Loop() {
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !tasks_.empty();
  };
  while (true) {
    absl::AnyInvocable<void()> run;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&ready));
      if (tasks_.empty()) return;
      std::pop_heap(tasks_.begin(), tasks_.end());
      run = std::move(tasks_.back().run);
      begun_bytes_ += tasks_.back().bytes;
      tasks_.pop_back();
    }
    run();
  }
}

}  // namespace tvq::gateway
