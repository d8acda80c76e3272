#include "server/sessions/placement/capacity.h"

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

absl::Status NoRoom(const ByteBudget& budget, int64_t bytes, const char* whose) {
  return absl::ResourceExhaustedError(
      absl::StrCat("sessions: no room for a state of ", bytes, " bytes: ", budget.used(), " of ",
                   budget.total(), " bytes are taken by ", whose, "sessions and marks"));
}

}  // namespace

absl::Status Capacity::Place::Resize(int64_t bytes) {
  const int64_t before = this->bytes();
  if (!of_all_.TryResize(bytes)) return NoRoom(*all_, bytes, "");
  if (of_owners_.TryResize(bytes)) return absl::OkStatus();
  of_all_.ForceResize(before);
  return NoRoom(*owners_, bytes, "this key's ");
}

void Capacity::Place::Force(int64_t bytes) {
  of_owners_.ForceResize(bytes);
  of_all_.ForceResize(bytes);
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
  return {all_, by_owner_.try_emplace(owner, per_owner_).first->second};
}

}  // namespace tvq
