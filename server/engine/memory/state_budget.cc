#include "server/engine/memory/state_budget.h"

#include <utility>

namespace tvq {

void StateBudget::OnShortage(std::function<void(int64_t wanted)> listener) {
  const MutexLock lock(&shortage_mutex_);
  on_shortage_ = std::move(listener);
}

void StateBudget::ReportShortage(int64_t wanted) {
  {
    const MutexLock lock(&short_mutex_);
    short_ = true;
  }
  const MutexLock lock(&shortage_mutex_);
  if (on_shortage_) on_shortage_(wanted);
}

bool StateBudget::shortage() const {
  const MutexLock lock(&short_mutex_);
  return short_;
}

void StateBudget::OnRelief(std::function<void()> listener) {
  const MutexLock lock(&relief_mutex_);
  on_relief_ = std::move(listener);
}

std::shared_ptr<const void> StateBudget::PaySealed(Share share) {
  sealed_bytes_ += share.bytes();
  const auto give_back = [this](Share* paid) {
    sealed_bytes_ -= paid->bytes();
    delete paid;
  };
  return std::shared_ptr<const Share>(new Share(std::move(share)), give_back);
}

// The bytes are back by now: a shortage reported before the flag is read reaches the listener; a
// thread that reports one after it finds the bytes when it tries once more.
void StateBudget::OnRelease() {
  {
    const MutexLock lock(&short_mutex_);
    if (!std::exchange(short_, false)) return;
  }
  const MutexLock lock(&relief_mutex_);
  if (on_relief_) on_relief_();
}

}  // namespace tvq
