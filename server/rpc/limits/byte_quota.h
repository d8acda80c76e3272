#ifndef TVQ_SERVER_RPC_LIMITS_BYTE_QUOTA_H_
#define TVQ_SERVER_RPC_LIMITS_BYTE_QUOTA_H_

#include <cstddef>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace tvq {

// Bounds the memory of all that some kind of calls keep for their clients. Any thread.
class ByteQuota {
 public:
  explicit ByteQuota(size_t bytes) : most_(bytes) {}

  // What one call keeps, given back by the destructor. One thread at a time.
  class Share {
   public:
    explicit Share(ByteQuota* quota) : quota_(quota) {}
    ~Share() { quota_->Give(bytes_); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // False, and it stays as it was, if there is no room for so many more. What is larger than all
    // the room finds it when nothing else is there.
    [[nodiscard]] bool Add(size_t bytes) {
      if (!quota_->TryTake(bytes)) return false;
      bytes_ += bytes;
      return true;
    }

   private:
    ByteQuota* const quota_;
    size_t bytes_ = 0;
  };

 private:
  bool TryTake(size_t bytes) {
    absl::MutexLock lock(&mutex_);
    if (taken_ > 0 && (taken_ > most_ || bytes > most_ - taken_)) return false;
    taken_ += bytes;
    return true;
  }
  void Give(size_t bytes) {
    absl::MutexLock lock(&mutex_);
    taken_ -= bytes;
  }

  const size_t most_;
  absl::Mutex mutex_;
  size_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LIMITS_BYTE_QUOTA_H_
