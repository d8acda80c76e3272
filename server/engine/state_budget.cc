#include "server/engine/state_budget.h"

#include <cstdlib>

namespace tvq {

StateBudget::Share& StateBudget::Share::operator=(Share&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  budget_ = std::exchange(other.budget_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

StateBudget::Share StateBudget::Share::Split(int64_t bytes) {
  if (bytes < 0 || bytes > bytes_) std::abort();  // would count bytes that nobody reserved
  bytes_ -= bytes;
  return {budget_, bytes};
}

void StateBudget::Share::Shrink(int64_t bytes) {
  if (bytes < bytes_) Split(bytes_ - bytes).Reset();
}

void StateBudget::Share::Reset() {
  const int64_t bytes = std::exchange(bytes_, 0);
  StateBudget* const budget = std::exchange(budget_, nullptr);
  if (bytes > 0) budget->Release(bytes);
}

std::optional<StateBudget::Share> StateBudget::TryReserve(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > total_ - used_) return std::nullopt;
  used_ += bytes;
  return Share(this, bytes);
}

int64_t StateBudget::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

void StateBudget::OnShortage(std::function<void(int64_t missing)> listener) {
  const std::lock_guard lock(shortage_mutex_);
  on_shortage_ = std::move(listener);
}

void StateBudget::ReportShortage(int64_t missing) {
  {
    const std::lock_guard lock(mutex_);
    short_ = true;
  }
  const std::lock_guard lock(shortage_mutex_);
  if (on_shortage_) on_shortage_(missing);
}

bool StateBudget::shortage() const {
  const std::lock_guard lock(mutex_);
  return short_;
}

void StateBudget::OnRelief(std::function<void()> listener) {
  const std::lock_guard lock(relief_mutex_);
  on_relief_ = std::move(listener);
}

void StateBudget::Release(int64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    used_ -= bytes;
    if (!std::exchange(short_, false)) return;
  }
  const std::lock_guard lock(relief_mutex_);
  if (on_relief_) on_relief_();
}

}  // namespace tvq
