// How many states a server promises to keep.
#ifndef TVQ_SERVER_SESSIONS_CAPACITY_H_
#define TVQ_SERVER_SESSIONS_CAPACITY_H_

#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/sessions/mutex.h"

namespace tvq {

// Bytes of host memory and of the durable tier together. Every session and every mark takes its
// place here when it is made, so that a state that has to leave the device always has somewhere to
// go. Thread-safe; must outlive its places.
class Capacity {
 public:
  // Bytes taken; given back by the destructor.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept
        : capacity_(std::exchange(other.capacity_, nullptr)),
          bytes_(std::exchange(other.bytes_, 0)) {}
    Place& operator=(Place&& other) noexcept;
    ~Place();

    // RESOURCE_EXHAUSTED, and no change, if there is not so much.
    absl::Status Resize(int64_t bytes);
    int64_t bytes() const { return bytes_; }

   private:
    friend class Capacity;
    Place(Capacity* capacity, int64_t bytes) : capacity_(capacity), bytes_(bytes) {}
    Capacity* capacity_ = nullptr;
    int64_t bytes_ = 0;
  };

  explicit Capacity(int64_t total) : total_(total) {}

  // RESOURCE_EXHAUSTED, with the numbers, if there is not so much left.
  absl::StatusOr<Place> Reserve(int64_t bytes);

  // For what exists already, even if there is less left; then nothing more can be made.
  Place Force(int64_t bytes);

  int64_t total() const { return total_; }
  int64_t used() const;

 private:
  absl::Status Take(int64_t bytes);
  void GiveBack(int64_t bytes);

  const int64_t total_;
  mutable Mutex mutex_;
  int64_t used_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_CAPACITY_H_
