#include "server/rpc/limits/rate_limiter.h"

#include <algorithm>
#include <cmath>

namespace tvq {
namespace {

constexpr size_t kWorthForgetting = 1000;

}  // namespace

RateLimiter::RateLimiter(double per_second)
    : per_second_(per_second), burst_(std::max(1.0, per_second)) {}

std::optional<std::chrono::milliseconds> RateLimiter::Take(const std::string& owner, Time now) {
  if (per_second_ <= 0) return std::nullopt;
  const MutexLock lock(&mutex_);
  if (buckets_.size() >= std::max(forget_at_, kWorthForgetting)) ForgetFull(now);
  Bucket& bucket = buckets_.try_emplace(owner, Bucket{burst_, now}).first->second;
  bucket.requests = RequestsAt(bucket, now);
  bucket.at = std::max(bucket.at, now);
  if (bucket.requests >= 1) {
    bucket.requests -= 1;
    return std::nullopt;
  }
  const double wait = (1 - bucket.requests) / per_second_;
  return std::chrono::milliseconds(std::max<int64_t>(1, std::llround(std::ceil(wait * 1000))));
}

size_t RateLimiter::size() const {
  const MutexLock lock(&mutex_);
  return buckets_.size();
}

double RateLimiter::RequestsAt(const Bucket& bucket, Time now) const {
  // Another thread may have come here with a later time already.
  const double seconds = std::max(0.0, std::chrono::duration<double>(now - bucket.at).count());
  return std::min(burst_, bucket.requests + seconds * per_second_);
}

// A full bucket is as good as a new one.
void RateLimiter::ForgetFull(Time now) {
  std::erase_if(buckets_,
                [&](const auto& entry) { return RequestsAt(entry.second, now) >= burst_; });
  forget_at_ = 2 * buckets_.size();
}

}  // namespace tvq
