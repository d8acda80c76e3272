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
// go. Thread-safe; must outlive its places.
class Capacity {
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
    Place(ByteBudget& all, ByteBudget& owners)
        : all_(&all), owners_(&owners), of_all_(all.Nothing()), of_owners_(owners.Nothing()) {}
    const ByteBudget* all_;
    const ByteBudget* owners_;
    ByteBudget::Share of_all_;
    ByteBudget::Share of_owners_;
  };

  // `per_owner`: of one owner; 0: no limit but the total.
  explicit Capacity(int64_t total, int64_t per_owner = 0)
      : per_owner_(per_owner > 0 ? per_owner : total), all_(total) {}

  // As Resize of an empty place.
  absl::StatusOr<Place> Reserve(const std::string& owner, int64_t bytes);
  Place Force(const std::string& owner, int64_t bytes);

  int64_t total() const { return all_.total(); }
  int64_t largest() const { return std::min(all_.total(), per_owner_); }  // that a place can be
  int64_t used() const { return all_.used(); }

 private:
  Place Empty(const std::string& owner);

  const int64_t per_owner_;
  ByteBudget all_;
  Mutex mutex_;
  std::map<std::string, ByteBudget> by_owner_ ABSL_GUARDED_BY(mutex_);  // as many as there are keys
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_PLACEMENT_CAPACITY_H_
