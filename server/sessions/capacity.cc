#include "server/sessions/capacity.h"

#include "absl/strings/str_cat.h"

namespace tvq {

Capacity::Place& Capacity::Place::operator=(Place&& other) noexcept {
  if (this != &other) {
    if (capacity_ != nullptr) capacity_->GiveBack(bytes_);
    capacity_ = std::exchange(other.capacity_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

Capacity::Place::~Place() {
  if (capacity_ != nullptr) capacity_->GiveBack(bytes_);
}

absl::Status Capacity::Place::Resize(int64_t bytes) {
  if (bytes > bytes_) {
    if (auto status = capacity_->Take(bytes - bytes_); !status.ok()) return status;
  } else if (bytes < bytes_) {
    capacity_->GiveBack(bytes_ - bytes);
  }
  bytes_ = bytes;
  return absl::OkStatus();
}

absl::StatusOr<Capacity::Place> Capacity::Reserve(int64_t bytes) {
  if (auto status = Take(bytes); !status.ok()) return status;
  return Place(this, bytes);
}

Capacity::Place Capacity::Force(int64_t bytes) {
  const MutexLock lock(&mutex_);
  used_ += bytes;
  return {this, bytes};
}

int64_t Capacity::used() const {
  const MutexLock lock(&mutex_);
  return used_;
}

absl::Status Capacity::Take(int64_t bytes) {
  const MutexLock lock(&mutex_);
  if (bytes > total_ - used_) {
    return absl::ResourceExhaustedError(absl::StrCat("sessions: no room for a state of ", bytes,
                                                     " bytes: ", used_, " of ", total_,
                                                     " bytes are taken by sessions and marks"));
  }
  used_ += bytes;
  return absl::OkStatus();
}

void Capacity::GiveBack(int64_t bytes) {
  const MutexLock lock(&mutex_);
  used_ -= bytes;
}

}  // namespace tvq
