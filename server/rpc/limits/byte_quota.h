#ifndef TVQ_SERVER_RPC_LIMITS_BYTE_QUOTA_H_
#define TVQ_SERVER_RPC_LIMITS_BYTE_QUOTA_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/fair_share.h"
#include "base/mutex.h"
#include "base/refusal.h"

namespace tvq {

// Bounds the memory that all calls of some kind keep for their clients, and shares it fairly among
// their owners (FairShare, 15 times). An owner's only call may keep what others leave, or more than
// the whole quota if nobody else keeps anything. Any thread.
class ByteQuota {
 public:
  // `what` keeps bytes, in the plural and as errors name it; a literal.
  ByteQuota(const char* what, int64_t bytes)
      : ByteQuota(what, bytes, "bytes", Reason::kMemoryFull) {}
  // Counts `unit`, another literal, instead of bytes: of things that all take the same memory.
  ByteQuota(const char* what, int64_t most, const char* unit, Reason reason)
      : what_(what), unit_(unit), reason_(reason), total_(most), fair_(most, 15) {}

  // What one call keeps, given back by the destructor. One thread at a time.
  class Share {
   public:
    Share() = default;  // of no quota
    Share(ByteQuota* quota, std::string owner) : quota_(quota), owner_(std::move(owner)) {}
    ~Share() { Give(); }
    Share(Share&& other) noexcept;
    Share& operator=(Share&& other) noexcept;

    // Refused, and it stays as it was, if there is no room for so many more, or none for
    // this owner. Says how much is taken, whose limit that is, and what would help.
    absl::Status Add(int64_t bytes);
    int64_t bytes() const { return bytes_; }

   private:
    void Give();

    ByteQuota* quota_ = nullptr;
    std::string owner_;
    int64_t bytes_ = 0;
  };

 private:
  // For a share that has `has`.
  absl::Status Take(const std::string& owner, int64_t has, int64_t more);
  void Give(const std::string& owner, int64_t bytes);

  const char* const what_;
  const char* const unit_;
  const Reason reason_;
  const int64_t total_;
  const FairShare fair_;
  Mutex mutex_;
  int64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, int64_t> owners_ ABSL_GUARDED_BY(mutex_);  // that keep something
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LIMITS_BYTE_QUOTA_H_
