#include "client/loadtest/waker.h"

#include <utility>

namespace tvq::loadtest {

Waker::Waker(std::function<void()> wake) : wake_(std::move(wake)), thread_([this] { Run(); }) {}

Waker::~Waker() {
  {
    const MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.NotifyOne();
  thread_.join();
}

void Waker::Set(Time time) {
  bool earlier = false;
  {
    const MutexLock lock(&mutex_);
    earlier = time < time_;
    time_ = time;
  }
  // A later time is found when the earlier one has passed.
  if (earlier) changed_.NotifyOne();
}

void Waker::Run() {
  Time time;
  const auto changed = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || time_ < time;
  };
  mutex_.Lock();
  while (!stopping_) {
    time = time_;
    if (std::chrono::steady_clock::now() < time) {
      changed_.AwaitUntil(&mutex_, time, changed);
    } else {
      time_ = Time::max();
      mutex_.Unlock();
      wake_();
      mutex_.Lock();
    }
  }
  mutex_.Unlock();
}

}  // namespace tvq::loadtest
