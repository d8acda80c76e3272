#include "server/sessions/placement/tiers.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "server/sessions/snapshot/state_image.h"

namespace tvq {
namespace {

// Room for two requests, but no more than an eighth: states that are there are found faster.
int64_t Headroom(const Engine& engine, int64_t total) {
  int64_t largest = 0;
  for (const ServedModel& served : engine.models()) {
    largest = std::max(largest, served.model->LargestStateBytes());
  }
  return std::min(2 * largest, total / 8);
}

}  // namespace

Checkpoint::~Checkpoint() { tiers_->Forget(*this); }

std::shared_ptr<Tiers> Tiers::Create(Options options) {
  std::shared_ptr<Tiers> tiers(new Tiers(std::move(options)));
  tiers->device_evictor_ = std::thread([t = tiers.get()] { t->EvictDevice(); });
  tiers->host_evictor_ = std::thread([t = tiers.get()] { t->EvictHost(); });
  // Weak, for the loop may be telling while the store ends.
  tiers->device().OnShortage([weak = std::weak_ptr<Tiers>(tiers)](int64_t wanted) {
    const std::shared_ptr<Tiers> t = weak.lock();
    if (t == nullptr) return;
    const MutexLock lock(&t->mutex_);
    t->device_wanted_ = std::max(t->device_wanted_, wanted);
    t->WakeDevice();
  });
  return tiers;
}

Tiers::Tiers(Options options)
    : options_(std::move(options)), headroom_(Headroom(*options_.engine, device().total())) {}

void Tiers::Stop() {
  device().OnShortage({});
  {
    const MutexLock lock(&mutex_);
    stopping_ = true;
    woken_.Notify();
  }
  if (device_evictor_.joinable()) device_evictor_.join();
  if (host_evictor_.joinable()) host_evictor_.join();
  copies_.Stop();
  loads_.Stop();
}

Tier Tiers::PlaceOf(const Checkpoint& checkpoint) {
  if (checkpoint.device_ != nullptr) return Tier::kDevice;
  return checkpoint.host_ != nullptr ? Tier::kHost : Tier::kDurable;
}

void Tiers::Unindex(const Checkpoint& checkpoint) {
  for (ByUse* const list : {&on_device_, &in_host_, &in_both_}) list->erase(checkpoint.last_use_);
  if (checkpoint.device_ != nullptr) device_used_ -= checkpoint.device_->share.bytes();
  if (checkpoint.host_ != nullptr) host_used_ -= checkpoint.host_->memory_bytes();
  sessions_[static_cast<int>(PlaceOf(checkpoint))] -= checkpoint.presents_;
}

void Tiers::Index(Checkpoint& checkpoint) {
  const auto entry = std::pair(checkpoint.last_use_, &checkpoint);
  if (checkpoint.device_ != nullptr) {
    device_used_ += checkpoint.device_->share.bytes();
    on_device_.insert(entry);
  }
  if (checkpoint.host_ != nullptr) {
    host_used_ += checkpoint.host_->memory_bytes();
    (checkpoint.device_ != nullptr ? in_both_ : in_host_).insert(entry);
  }
  sessions_[static_cast<int>(PlaceOf(checkpoint))] += checkpoint.presents_;
}

std::shared_ptr<Checkpoint> Tiers::Enter(std::shared_ptr<Checkpoint> checkpoint) {
  const MutexLock lock(&mutex_);
  checkpoint->last_use_ = ++uses_;
  Index(*checkpoint);
  WakeDevice();
  WakeHost();
  return checkpoint;
}

std::shared_ptr<Checkpoint> Tiers::Add(size_t model, Continuation next) {
  next.held.Seal(device());
  const State& state = *next.held.state;
  auto head = std::make_shared<CheckpointHead>();
  head->position = state.position();
  head->pending = std::move(next.pending);
  if (head->pending.empty() && !next.logits.empty()) {
    head->logits = std::make_shared<const std::vector<float>>(std::move(next.logits));
  }
  StateContent content{.state = &state, .pending = head->pending};
  if (head->logits != nullptr) content.logits = *head->logits;
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint(shared_from_this(), model, state.bytes(),
                                                        StateImageBytes(info(model), content)));
  checkpoint->head_ = std::move(head);
  checkpoint->device_ = std::make_shared<const HeldState>(std::move(next.held));
  return Enter(std::move(checkpoint));
}

std::shared_ptr<Checkpoint> Tiers::AddStored(size_t model, int64_t bytes, int64_t image_bytes,
                                             StoredPlace at) {
  std::shared_ptr<Checkpoint> checkpoint(
      new Checkpoint(shared_from_this(), model, bytes, image_bytes));
  checkpoint->holders_.Add(std::move(at), /*stored=*/true);
  return Enter(std::move(checkpoint));
}

absl::StatusOr<std::shared_ptr<Checkpoint>> Tiers::AddImage(size_t model,
                                                            std::shared_ptr<const Blob> image) {
  const auto source = NewSource(image);
  auto reader = StateImageReader::Open(source.get(), info(model));
  if (!reader.ok()) return reader.status();
  auto head = std::make_shared<const CheckpointHead>(HeadOf(*reader));
  const int64_t bytes = options_.engine->models()[model].model->StateBytes(head->position);
  std::shared_ptr<Checkpoint> checkpoint(
      new Checkpoint(shared_from_this(), model, bytes, image->size()));
  checkpoint->head_ = std::move(head);
  checkpoint->host_ = std::move(image);
  return Enter(std::move(checkpoint));
}

void Tiers::Forget(Checkpoint& checkpoint) {
  const MutexLock lock(&mutex_);
  Unindex(checkpoint);
  WakeDevice();  // host memory may have the room now that it lacked
}

void Tiers::AddHolder(Checkpoint& checkpoint, StoredPlace at) {
  const MutexLock lock(&mutex_);
  if (checkpoint.device_ == nullptr && checkpoint.host_ == nullptr) std::abort();
  checkpoint.holders_.Add(std::move(at), /*stored=*/false);
}

void Tiers::RemoveHolder(Checkpoint& checkpoint, const StoredPlace& at) {
  const MutexLock lock(&mutex_);
  checkpoint.holders_.Remove(at);
}

void Tiers::SetStored(Checkpoint& checkpoint, const StoredPlace& at, bool stored) {
  const MutexLock lock(&mutex_);
  // What is not in memory is there or lost.
  if (!stored && checkpoint.device_ == nullptr && checkpoint.host_ == nullptr) return;
  checkpoint.holders_.SetStored(at, stored);
}

bool Tiers::IsStored(const Checkpoint& checkpoint, const StoredPlace& at) const {
  const MutexLock lock(&mutex_);
  return checkpoint.holders_.IsStored(at);
}

std::shared_ptr<const CheckpointHead> Tiers::Head(const Checkpoint& checkpoint) const {
  const MutexLock lock(&mutex_);
  return checkpoint.head_;
}

Tiers::Pin::Pin(std::shared_ptr<Tiers> tiers, std::shared_ptr<Checkpoint> checkpoint)
    : tiers_(std::move(tiers)), checkpoint_(std::move(checkpoint)) {
  const MutexLock lock(&tiers_->mutex_);
  ++checkpoint_->pins_;
}

Tiers::Pin::~Pin() {
  if (checkpoint_ == nullptr) return;
  const MutexLock lock(&tiers_->mutex_);
  --checkpoint_->pins_;
  // A thread that looked for something to evict may have passed it by.
  tiers_->WakeDevice();
  tiers_->WakeHost();
}

Tier Tiers::Where(const Checkpoint& checkpoint) const {
  const MutexLock lock(&mutex_);
  return PlaceOf(checkpoint);
}

void Tiers::MovePresent(Checkpoint* before, Checkpoint* after) {
  if (before == after) return;
  const MutexLock lock(&mutex_);
  for (Checkpoint* const checkpoint : {before, after}) {
    if (checkpoint == nullptr) continue;
    Unindex(*checkpoint);
    checkpoint->presents_ += checkpoint == after ? 1 : -1;
    Index(*checkpoint);
  }
}

std::vector<std::string> Tiers::TakeParked(size_t most) {
  std::vector<std::string> ids;
  std::vector<std::shared_ptr<Checkpoint>> seen;  // the last to let go must not have the mutex
  const MutexLock lock(&mutex_);
  while (!parked_.empty() && ids.size() < most) {
    Parked& next = parked_.front();
    const std::shared_ptr<Checkpoint> checkpoint = next.checkpoint.lock();
    if (checkpoint != nullptr && (seen.empty() || seen.back() != checkpoint)) {
      seen.push_back(checkpoint);
    }
    // Where it is in memory again, it is noted again when it leaves.
    const bool is_parked = checkpoint != nullptr && PlaceOf(*checkpoint) == Tier::kDurable;
    const auto at = is_parked ? checkpoint->holders_.NextStored(next.told) : std::nullopt;
    if (!at) {
      parked_.pop_front();
      continue;
    }
    if (at->id != next.told.id) ids.push_back(at->id);
    next.told = *at;
  }
  return ids;
}

Tiers::Found Tiers::Find(Checkpoint& checkpoint) {
  const bool device_works = options_.engine->Health().ok();
  const MutexLock lock(&mutex_);
  Unindex(checkpoint);
  checkpoint.last_use_ = ++uses_;
  Index(checkpoint);
  Found found{checkpoint.device_, checkpoint.host_, checkpoint.head_};
  // Where there is nothing else the device is read, and its error returned.
  const bool elsewhere = found.host != nullptr || checkpoint.holders_.any_stored();
  if (!device_works && elsewhere) found.device = nullptr;
  return found;
}

void Tiers::AddStats(SessionStats& stats) const {
  const MutexLock lock(&mutex_);
  stats.device.sessions += sessions_[static_cast<int>(Tier::kDevice)];
  stats.host.sessions += sessions_[static_cast<int>(Tier::kHost)];
  stats.durable.sessions += sessions_[static_cast<int>(Tier::kDurable)];
  stats.device.state_bytes = device_used_ + device().sealed_bytes();
  stats.host.state_bytes = host_used_;
  stats.device.budget_bytes = device().total();
  stats.host.budget_bytes = options_.host_bytes;
  stats.restores += restores_count_;
  stats.corrupt += corrupt_;
  stats.state_restore = restore_time_;
}

}  // namespace tvq
