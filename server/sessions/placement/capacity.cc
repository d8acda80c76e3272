#include "server/sessions/placement/capacity.h"

#include "absl/strings/str_cat.h"
#include "base/fair_share.h"
#include "base/refusal.h"

namespace tvq {
namespace {

constexpr int64_t kShare = 15;  // an owner may have so many times what it leaves to others

absl::Status NoRoom(int64_t bytes, const std::string& why) {
  return Refused(Reason::kMemoryFull,
                 absl::StrCat("sessions: no room for a state of ", bytes, " bytes: ", why));
}

std::string Full(const ByteBudget& budget, const char* whose) {
  return absl::StrCat(budget.used(), " of ", budget.total(), " bytes are taken by ", whose,
                      "sessions and marks; delete some that are not needed");
}

}  // namespace

absl::Status Capacity::Place::Resize(int64_t bytes) {
  const MutexLock lock(&capacity_->mutex_);
  const int64_t before = this->bytes();
  if (!of_all_.TryResize(bytes)) return NoRoom(bytes, Full(capacity_->all_, ""));
  absl::Status status;
  if (!of_owner_.TryResize(bytes)) {
    status = NoRoom(bytes, Full(owner_->second, "this key's "));
  } else if (bytes > before) {
    status = capacity_->CheckShare(*owner_, before, bytes);
  }
  if (!status.ok()) Force(before);
  return status;
}

void Capacity::Place::Force(int64_t bytes) {
  of_owner_.ForceResize(bytes);
  of_all_.ForceResize(bytes);
}

absl::Status Capacity::CheckShare(const Owner& owner, int64_t before, int64_t bytes) const {
  if (owner.first.empty()) return absl::OkStatus();
  const FairShare share(all_.total(), kShare);
  const int64_t others = all_.used() - bytes;  // of all places but this one
  const int64_t others_of_owner = owner.second.used() - bytes;
  const bool fair = others_of_owner > 0
                        ? share.MayHave(others_of_owner + bytes, others + bytes)
                        : before > 0 || bytes <= first_ || share.MayBegin(bytes, others);
  const bool goes_on = before > 0 && others + bytes <= share.common();
  if (fair || goes_on) return absl::OkStatus();
  const int64_t mine = others_of_owner + before;
  return NoRoom(bytes, absl::StrCat("this key's sessions and marks take ", mine, " bytes and all ",
                                    others + before, " of ", all_.total(),
                                    " bytes; the rest is for other keys; ",
                                    mine > 0 ? "delete some of this key's that are not needed"
                                             : "a smaller state may find room"));
}

absl::StatusOr<Capacity::Place> Capacity::Reserve(const std::string& owner, int64_t bytes) {
  Place place = Empty(owner);
  if (auto status = place.Resize(bytes); !status.ok()) return status;
  return place;
}

Capacity::Place Capacity::Force(const std::string& owner, int64_t bytes) {
  Place place = Empty(owner);
  place.Force(bytes);
  return place;
}

Capacity::Place Capacity::Empty(const std::string& owner) {
  const MutexLock lock(&mutex_);
  return {*this, *by_owner_.try_emplace(owner, per_owner_).first};
}

}  // namespace tvq
