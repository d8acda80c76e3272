#include "base/ticker.h"

#include <utility>

namespace tvq {

Ticker::Ticker(std::chrono::milliseconds period, std::function<void()> tick)
    : period_(period), tick_(std::move(tick)), thread_([this] { Loop(); }) {}

Ticker::~Ticker() {
  {
    const MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.Notify();
  thread_.join();
}

void Ticker::Loop() {
  const auto stopping = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; };
  mutex_.Lock();
  while (!changed_.AwaitUntil(&mutex_, std::chrono::steady_clock::now() + period_, stopping)) {
    mutex_.Unlock();
    tick_();
    mutex_.Lock();
  }
  mutex_.Unlock();
}

}  // namespace tvq
