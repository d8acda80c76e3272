#include "client/loadtest/waker.h"

#include <utility>

namespace tvq::loadtest {

Waker::Waker(std::function<void()> wake) : wake_(std::move(wake)), thread_([this] { Run(); }) {}

Waker::~Waker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Waker::Set(Time time) {
  bool earlier = false;
  {
    const std::lock_guard lock(mutex_);
    earlier = time < time_;
    time_ = time;
  }
  // A later time is found when the earlier one has passed.
  if (earlier) changed_.notify_one();
}

void Waker::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (time_ == Time::max()) {
      changed_.wait(lock);
    } else if (const Time time = time_; std::chrono::steady_clock::now() < time) {
      changed_.wait_until(lock, time);
    } else {
      time_ = Time::max();
      lock.unlock();
      wake_();
      lock.lock();
    }
  }
}

}  // namespace tvq::loadtest
