#ifndef TVQ_SERVER_RPC_LIMITS_RATE_LIMITER_H_
#define TVQ_SERVER_RPC_LIMITS_RATE_LIMITER_H_

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace tvq {

// A token bucket for each owner: it holds a second's worth of requests, at least one, is full at
// first and fills at `per_second`. Any thread.
class RateLimiter {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit RateLimiter(double per_second);  // 0: no limit

  // Takes a request from the owner's bucket. If it has none left: how long until it has, rounded up
  // to milliseconds.
  std::optional<std::chrono::milliseconds> Take(const std::string& owner, Time now);

  // Buckets that are kept: those that are not full, and some that were.
  size_t size() const;

 private:
  struct Bucket {
    double requests;
    Time at;
  };

  double RequestsAt(const Bucket& bucket, Time now) const;
  void ForgetFull(Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const double per_second_;
  const double burst_;
  mutable Mutex mutex_;
  std::map<std::string, Bucket> buckets_ ABSL_GUARDED_BY(mutex_);  // by owner
  size_t forget_at_ ABSL_GUARDED_BY(mutex_) = 0;                   // so many
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LIMITS_RATE_LIMITER_H_
