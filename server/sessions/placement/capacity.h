// How much of its sessions a server promises to keep.
#ifndef TVQ_SERVER_SESSIONS_PLACEMENT_CAPACITY_H_
#define TVQ_SERVER_SESSIONS_PLACEMENT_CAPACITY_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/engine/memory/byte_budget.h"

namespace tvq {

// Bytes of host memory and of the durable tier together, and each owner's part of them. Every
// session and every mark takes its place here when it is made, for its state's image, its
// transcript and its replies, so that a state that has to leave the device always has somewhere to
// go.
//
// Owners with names share it fairly (FairShare, 15 times): alone one may have some 7/8. Sessions
// that are there may grow beyond it, but not into what is kept for owners that have none. The first
// session of an owner may always be made if there is room, and grow. The owner without a name is
// that of all calls on a server without keys, and may have all.
//
// Thread-safe; must outlive its places.
class Capacity {
  using Owner = std::pair<const std::string, ByteBudget>;

 public:
  // Bytes taken; given back by the destructor. One thread at a time.
  class Place {
   public:
    // RESOURCE_EXHAUSTED, with the numbers, and no change, if there is not so much.
    absl::Status Resize(int64_t bytes);
    // For what exists already, even if there is less left; then nothing more can be made.
    void Force(int64_t bytes);
    int64_t bytes() const { return of_all_.bytes(); }

   private:
    friend class Capacity;
    Place(Capacity& capacity, Owner& owner)
        : capacity_(&capacity),
          owner_(&owner),
          of_all_(capacity.all_.Nothing()),
          of_owner_(owner.second.Nothing()) {}
    Capacity* capacity_;
    const Owner* owner_;
    ByteBudget::Share of_all_;
    ByteBudget::Share of_owner_;
  };

  // `per_owner`: of one owner; 0: no limit but the total. `first`: what the first session of an
  // owner takes at most when it is made; a larger one has to leave some for others.
  explicit Capacity(int64_t total, int64_t per_owner = 0, int64_t first = 0)
      : per_owner_(per_owner > 0 ? per_owner : total), first_(first), all_(total) {}

  // As Resize of an empty place.
  absl::StatusOr<Place> Reserve(const std::string& owner, int64_t bytes);
  Place Force(const std::string& owner, int64_t bytes);

  int64_t total() const { return all_.total(); }
  int64_t largest() const { return std::min(all_.total(), per_owner_); }  // that a place can be
  int64_t used() const { return all_.used(); }

 private:
  Place Empty(const std::string& owner);
  // Whether a place of the owner, which took `before` bytes, may take the `bytes` that it does.
  absl::Status CheckShare(const Owner& owner, int64_t before, int64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t per_owner_;
  const int64_t first_;
  ByteBudget all_;
  Mutex mutex_;  // held by Resize, so that two do not both take what is fair for one
  std::map<std::string, ByteBudget> by_owner_ ABSL_GUARDED_BY(mutex_);  // as many as there are keys
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_PLACEMENT_CAPACITY_H_
