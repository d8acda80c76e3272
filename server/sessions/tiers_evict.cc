// Making room, least recently used first.
#include <algorithm>
#include <utility>

#include "server/sessions/state_image.h"
#include "server/sessions/tiers.h"

namespace tvq {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kFirstRetry{100};
constexpr std::chrono::milliseconds kLastRetry{10'000};

}  // namespace

bool Tiers::AllStored(const Checkpoint& checkpoint) const {
  return !checkpoint.holders_.empty() &&
         std::all_of(checkpoint.holders_.begin(), checkpoint.holders_.end(),
                     [](const Checkpoint::Holder& holder) { return holder.stored; });
}

bool Tiers::DeviceIsShort() {
  const int64_t available = device().total() - device().used();
  if (available >= device_missing_) device_missing_ = 0;
  return available < std::max(headroom_, device_missing_);
}

void Tiers::EvictDevice() {
  const auto woken = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return device_wake_ || stopping_;
  };
  for (;;) {
    {
      const MutexLock lock(&mutex_);
      woken_.Await(&mutex_, woken);
      if (stopping_) return;
      device_wake_ = false;
    }
    while (EvictOneFromDevice()) {
    }
  }
}

bool Tiers::EvictOneFromDevice() {
  // What is dropped is freed after the lock is given back.
  std::shared_ptr<Checkpoint> victim;
  std::shared_ptr<const HeldState> device;
  std::shared_ptr<const CheckpointHead> head;
  {
    const MutexLock lock(&mutex_);
    if (stopping_ || !DeviceIsShort()) return false;
    for (Checkpoint* candidate : by_use_) {
      if (candidate->device_ == nullptr || candidate->pins_ > 0) continue;
      victim = candidate->weak_from_this().lock();
      if (victim != nullptr) break;  // else it is being freed just now
    }
    if (victim == nullptr) return false;
    if (victim->host_ != nullptr || !HostHasRoom(victim->image_bytes())) {
      if (victim->host_ == nullptr && !AllStored(*victim)) {
        host_missing_ = std::max(host_missing_, victim->image_bytes());
        WakeHost();
        return false;  // goes on when host memory has room
      }
      device.swap(victim->device_);
      if (victim->host_ == nullptr) head.swap(victim->head_);
      device_missing_ -= std::min(device_missing_, device->share.bytes());
      return true;
    }
    host_used_ += victim->image_bytes();  // taken before it is written
    ++victim->pins_;
    device = victim->device_;
    head = victim->head_;
  }
  StateContent content{.state = device->state.get(), .pending = head->pending};
  if (head->logits != nullptr) content.logits = *head->logits;
  BlobWriter writer(victim->image_bytes());
  const auto written = WriteStateImage(info(victim->model()), content, writer.sink());
  device.reset();
  const MutexLock lock(&mutex_);
  --victim->pins_;
  host_used_ -= victim->image_bytes();
  if (!written.ok()) return false;  // no memory: tried again with the next wake
  if (victim->host_ == nullptr) {
    victim->host_ = writer.Finish();
    host_used_ += victim->host_->memory_bytes();
  }
  return true;  // its place on the device is given back in the next round, unless it is used again
}

void Tiers::EvictHost() {
  const auto woken = [this]()
                         ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return host_wake_ || stopping_; };
  for (;;) {
    {
      const MutexLock lock(&mutex_);
      woken_.Await(&mutex_, woken);
      if (stopping_) return;
      host_wake_ = false;
    }
    while (EvictOneFromHost()) {
    }
  }
}

bool Tiers::EvictOneFromHost() {
  std::shared_ptr<Checkpoint> victim;
  std::shared_ptr<const Blob> host;
  std::shared_ptr<const CheckpointHead> head;
  std::string to_store;
  {
    const MutexLock lock(&mutex_);
    if (stopping_) return false;
    if (HostHasRoom(host_missing_)) {
      if (host_missing_ > 0) WakeDevice();
      host_missing_ = 0;
      return false;
    }
    const auto find = [&](auto fits) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      for (Checkpoint* candidate : by_use_) {
        if (candidate->host_ == nullptr || candidate->pins_ > 0 || !fits(*candidate)) continue;
        victim = candidate->weak_from_this().lock();
        if (victim != nullptr) return true;
      }
      return false;
    };
    // What the device has too is given up for nothing.
    if (find([](const Checkpoint& c) { return c.device_ != nullptr; }) ||
        (options_.durable != nullptr && find([&](const Checkpoint& c) {
           return AllStored(c) || (!c.holders_.empty() && SteadyClock::now() >= retry_at_);
         }))) {
      if (victim->device_ != nullptr || AllStored(*victim)) {
        host.swap(victim->host_);
        if (victim->device_ == nullptr) head.swap(victim->head_);
        host_used_ -= host->memory_bytes();
        return true;
      }
      const auto& holders = victim->holders_;
      to_store = std::find_if(holders.begin(), holders.end(), [](const Checkpoint::Holder& h) {
                   return !h.stored;
                 })->at.id;
    }
    if (to_store.empty()) return false;
  }
  const auto stored = options_.persist(to_store);
  const MutexLock lock(&mutex_);
  const bool still =
      std::any_of(victim->holders_.begin(), victim->holders_.end(),
                  [&](const Checkpoint::Holder& h) { return !h.stored && h.at.id == to_store; });
  if (stored.ok() && !still) {
    retry_after_ = std::chrono::milliseconds(0);
    return true;
  }
  retry_after_ = std::clamp(2 * retry_after_, kFirstRetry, kLastRetry);
  retry_at_ = SteadyClock::now() + retry_after_;
  return true;  // what is stored already may still go
}

void Tiers::Retry() {
  const MutexLock lock(&mutex_);
  WakeDevice();
  WakeHost();
}

}  // namespace tvq
