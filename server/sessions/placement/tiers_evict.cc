// Making room, least recently used first.
#include <algorithm>
#include <utility>

#include "server/sessions/placement/tiers.h"
#include "server/sessions/snapshot/state_image.h"

namespace tvq {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kFirstRetry{100};
constexpr std::chrono::milliseconds kLastRetry{10'000};

// Whether others may not be stored either: the tier is away or full. Else something is wrong with
// one session.
bool MayConcernAll(const absl::Status& failure) {
  return absl::IsUnavailable(failure) || absl::IsResourceExhausted(failure);
}

bool IsAmong(const std::vector<std::shared_ptr<Checkpoint>>& some, const Checkpoint* one) {
  return std::any_of(some.begin(), some.end(), [one](const auto& c) { return c.get() == one; });
}

}  // namespace

bool Tiers::DeviceIsShort() {
  const int64_t available = device().total() - device().used();
  if (available >= device_wanted_) device_wanted_ = 0;
  return available < std::max(headroom_, device_wanted_);
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
    std::vector<CheckpointPtr> unmovable;
    while (EvictOneFromDevice(unmovable)) {
    }
  }
}

Tiers::CheckpointPtr Tiers::DeviceVictim(const std::vector<CheckpointPtr>& unmovable) {
  for (const auto& [use, candidate] : on_device_) {
    if (candidate->pins_ > 0 || IsAmong(unmovable, candidate)) continue;
    const int64_t bytes = candidate->image_bytes();
    if (candidate->host_ != nullptr || candidate->holders_.all_stored() || HostHasRoom(bytes)) {
      // Only what is returned is locked: the last to let go of one must not have the mutex.
      CheckpointPtr victim = candidate->weak_from_this().lock();
      if (victim != nullptr) return victim;
      continue;  // it is being freed just now
    }
    // Its turn comes when it is stored, or host memory has room.
    if (bytes > options_.host_bytes) {
      if (!too_large_.expired() || !MayStore(*candidate)) continue;
      too_large_ = candidate->weak_from_this();
    } else if (host_missing_ == 0) {
      host_missing_ = bytes;
    }
    WakeHost();
  }
  return nullptr;
}

bool Tiers::EvictOneFromDevice(std::vector<CheckpointPtr>& unmovable) {
  CheckpointPtr victim;
  std::shared_ptr<const HeldState> device;
  std::shared_ptr<const CheckpointHead> head;
  GivenUp given_up;
  {
    const MutexLock lock(&mutex_);
    if (stopping_ || !DeviceIsShort()) return false;
    victim = DeviceVictim(unmovable);
    if (victim == nullptr) return false;
    if (victim->host_ != nullptr || victim->holders_.all_stored()) {
      given_up = DropFromDevice(*victim);
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
  if (!written.ok()) {  // no memory: tried again with the next wake
    unmovable.push_back(std::move(victim));
  } else if (victim->host_ == nullptr) {
    Unindex(*victim);
    victim->host_ = writer.Finish();
    Index(*victim);
  }
  return true;  // its place on the device is given back in the next round, unless it is used again
}

Tiers::GivenUp Tiers::DropFromDevice(Checkpoint& victim) {
  GivenUp given_up;
  Unindex(victim);
  given_up.device.swap(victim.device_);
  if (victim.host_ == nullptr) given_up.head.swap(victim.head_);
  Index(victim);
  NoteParked(victim);
  return given_up;
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

bool Tiers::MayStore(const Checkpoint& checkpoint) const {
  return options_.durable != nullptr && !checkpoint.holders_.empty() &&
         SteadyClock::now() >= std::max(retry_at_, checkpoint.retry_at_);
}

Tiers::CheckpointPtr Tiers::HostVictim() {
  if (HostHasRoom(host_missing_)) {
    if (host_missing_ > 0) WakeDevice();
    host_missing_ = 0;
    return std::exchange(too_large_, {}).lock();
  }
  // What the device has too is given up for nothing.
  for (const ByUse* const list : {&in_both_, &in_host_}) {
    for (const auto& [use, candidate] : *list) {
      if (candidate->pins_ > 0) continue;
      if (list == &in_host_ && !candidate->holders_.all_stored() && !MayStore(*candidate)) continue;
      CheckpointPtr victim = candidate->weak_from_this().lock();
      if (victim != nullptr) return victim;
    }
  }
  return nullptr;
}

Tiers::GivenUp Tiers::DropFromHost(Checkpoint& victim) {
  GivenUp given_up;
  Unindex(victim);
  given_up.host.swap(victim.host_);
  if (victim.device_ == nullptr) given_up.head.swap(victim.head_);
  Index(victim);
  NoteParked(victim);
  return given_up;
}

void Tiers::NoteParked(Checkpoint& checkpoint) {
  if (PlaceOf(checkpoint) != Tier::kDurable) return;
  parked_.push_back({.checkpoint = checkpoint.weak_from_this(), .told = {}});
}

bool Tiers::EvictOneFromHost() {
  CheckpointPtr victim;
  GivenUp given_up;
  std::string to_store;
  {
    const MutexLock lock(&mutex_);
    if (stopping_) return false;
    victim = HostVictim();
    if (victim == nullptr) return false;
    if (victim->host_ != nullptr && (victim->device_ != nullptr || victim->holders_.all_stored())) {
      given_up = DropFromHost(*victim);
      return true;
    }
    if (victim->holders_.all_stored() || !MayStore(*victim)) return false;
    to_store = victim->holders_.FirstUnstored();
  }
  const auto stored = options_.persist(to_store);
  const MutexLock lock(&mutex_);
  WakeDevice();  // what is stored can go from there, too
  if (stored.ok() && !victim->holders_.HasUnstored(to_store)) {
    retry_after_ = std::chrono::milliseconds(0);
    return true;
  }
  if (!MayConcernAll(stored)) {
    victim->retry_at_ = SteadyClock::now() + kLastRetry;
    return true;
  }
  retry_after_ = std::clamp(2 * retry_after_, kFirstRetry, kLastRetry);
  retry_at_ = SteadyClock::now() + retry_after_;
  // If it concerns this one alone, the next try is another's.
  Unindex(*victim);
  victim->last_use_ = ++uses_;
  Index(*victim);
  return true;  // what is stored already may still go
}

void Tiers::Retry() {
  const MutexLock lock(&mutex_);
  WakeDevice();
  WakeHost();
}

}  // namespace tvq
