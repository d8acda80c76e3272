#include "server/engine/memory/byte_budget.h"

#include <cstdlib>

namespace tvq {

ByteBudget::Share& ByteBudget::Share::operator=(Share&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  budget_ = std::exchange(other.budget_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

ByteBudget::Share ByteBudget::Share::Split(int64_t bytes) {
  if (bytes < 0 || bytes > bytes_) std::abort();  // would count bytes that were not reserved
  bytes_ -= bytes;
  return {budget_, bytes};
}

bool ByteBudget::Share::TryResize(int64_t bytes) {
  if (bytes > bytes_ && !budget_->TryTake(bytes - bytes_)) return false;
  if (bytes < bytes_) budget_->Release(bytes_ - bytes);
  bytes_ = bytes;
  return true;
}

void ByteBudget::Share::ForceResize(int64_t bytes) {
  budget_->Release(bytes_ - bytes);
  bytes_ = bytes;
}

void ByteBudget::Share::Shrink(int64_t bytes) {
  if (bytes < bytes_) Split(bytes_ - bytes).Reset();
}

void ByteBudget::Share::Reset() {
  const int64_t bytes = std::exchange(bytes_, 0);
  ByteBudget* const budget = std::exchange(budget_, nullptr);
  if (bytes > 0) budget->Release(bytes);
}

std::optional<ByteBudget::Share> ByteBudget::TryReserve(int64_t bytes) {
  if (!TryTake(bytes)) return std::nullopt;
  return Share(this, bytes);
}

int64_t ByteBudget::used() const {
  const MutexLock lock(&mutex_);
  return used_;
}

bool ByteBudget::TryTake(int64_t bytes) {
  const MutexLock lock(&mutex_);
  if (bytes > total_ - used_) return false;
  used_ += bytes;
  return true;
}

void ByteBudget::Release(int64_t bytes) {
  {
    const MutexLock lock(&mutex_);
    used_ -= bytes;
  }
  if (bytes > 0) OnRelease();
}

}  // namespace tvq
