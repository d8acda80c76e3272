#include "server/engine/scheduling/reservation.h"

#include <algorithm>

namespace tvq {
namespace {

// A request that is kept from starting is looked at again when the holder's waiting time has grown
// by a part in kLooks, or by kLeastPause if that is more.
constexpr int kLooks = 16;
constexpr std::chrono::milliseconds kLeastPause{10};

}  // namespace

std::optional<uint64_t> Reservation::holder() const {
  return holder_ && !left_ ? std::optional(holder_->id) : std::nullopt;
}

void Reservation::Look(const Occupancy& occupancy, Time now) {
  occupancy_ = &occupancy;
  now_ = now;
  sums_.reset();
  sums_of_.clear();
  beside_.reset();
  look_again_ = Time::max();
  if (!holder_) return;
  if (!left_ && now < kept_until_) {
    lacks_share_ = LacksShare(*holder_);
    if (lacks_share_) kept_from_.all = occupancy.started();
    beside_ = Staying(*holder_, kept_from_);
    if (Fits(*holder_, *beside_)) return;
  }
  GiveUp();
}

void Reservation::GiveUp() {
  rests_until_ = now_ + (std::min(now_, kept_until_) - kept_since_);
  holder_.reset();
  left_ = false;
  beside_.reset();
}

void Reservation::Offer(const Waiter& waiter) {
  if (holder_ || now_ < rests_until_) return;
  const KeptFrom kept_from{.all = occupancy_->started(), .mine = occupancy_->started()};
  const Occupancy::Taken beside = Staying(waiter, kept_from);
  if (!Fits(waiter, beside)) return;
  holder_ = waiter;
  lacks_share_ = LacksShare(waiter);
  kept_from_ = kept_from;
  kept_since_ = now_;
  kept_until_ = now_ + std::clamp<Time::duration>((now_ - waiter.since) / 2, kLeastKept, kMostKept);
  beside_ = beside;
}

bool Reservation::MayStart(const Waiter& waiter) {
  if (!holder_ || waiter.id == holder_->id) return true;
  const bool same_owner = *waiter.owner == *holder_->owner;
  if (lacks_share_ && !same_owner) return true;
  Occupancy::Taken beside = *beside_;
  beside.all += waiter.need;
  if (same_owner) beside.mine += waiter.need;
  if (Fits(*holder_, beside)) return true;
  const auto pause = std::max<Time::duration>(kLeastPause, (now_ - holder_->since) / kLooks);
  look_again_ = std::min(kept_until_, now_ + pause);
  return false;
}

void Reservation::Started(const Waiter& waiter) {
  if (sums_) {
    const uint64_t number = occupancy_->started() - 1;
    sums_->Add(now_, number, waiter.need);
    sums_of_[*waiter.owner].Add(now_, number, waiter.need);
  }
  if (!holder_) return;
  if (waiter.id == holder_->id) {
    holder_.reset();
    return;
  }
  const bool same_owner = *waiter.owner == *holder_->owner;
  if (same_owner) beside_->mine += waiter.need;
  if (same_owner || !lacks_share_) beside_->all += waiter.need;
}

void Reservation::Left(uint64_t id) { left_ = left_ || (holder_ && holder_->id == id); }

bool Reservation::LacksShare(const Waiter& waiter) {
  Occupancy::Taken taken = occupancy_->FairlyTakenWith(*waiter.owner);
  if (!waiter.limits->Admit(taken.mine.sequences + waiter.need.sequences)) return true;
  const uint64_t none = occupancy_->started();
  taken.all -= taken.mine;
  taken.mine = Staying(waiter, {.all = none, .mine = none}).mine;
  taken.all += taken.mine;
  return taken.mine != Need{} &&
         !occupancy_->MayTake(*waiter.owner, *waiter.limits, waiter.need, taken);
}

bool Reservation::Fits(const Waiter& waiter, const Occupancy::Taken& taken) const {
  return occupancy_->HasRoom(waiter.need, taken.all) &&
         occupancy_->MayTake(*waiter.owner, *waiter.limits, waiter.need, taken);
}

void Reservation::SumUp() {
  sums_.emplace();
  for (const Occupancy::Running& r : occupancy_->running()) {
    sums_->Add(r.started, r.number, r.need);
    sums_of_[*r.owner].Add(r.started, r.number, r.need);
  }
}

Occupancy::Taken Reservation::Staying(const Waiter& waiter, const KeptFrom& kept_from) {
  if (!sums_) SumUp();
  const Time middle = waiter.since + (now_ - waiter.since) / 2;
  Occupancy::Taken staying;
  staying.all = sums_->Staying(middle, kept_from.all);
  if (const auto mine = sums_of_.find(*waiter.owner); mine != sums_of_.end()) {
    staying.mine = mine->second.Staying(middle, kept_from.mine);
  }
  return staying;
}

void Reservation::Sums::Add(Time started, uint64_t number, const Need& need) {
  sums_.push_back({started, number, all_});
  all_ += need;
}

Need Reservation::Sums::Staying(Time middle, uint64_t kept_from) const {
  const auto before = [&](std::vector<Sum>::const_iterator it) {
    return it == sums_.end() ? all_ : it->before;
  };
  const auto young = std::partition_point(sums_.begin(), sums_.end(),
                                          [&](const Sum& s) { return s.started < middle; });
  const auto late =
      std::partition_point(young, sums_.end(), [&](const Sum& s) { return s.number < kept_from; });
  // All but those between the two.
  Need staying = all_;
  staying -= before(late);
  staying += before(young);
  return staying;
}

}  // namespace tvq
