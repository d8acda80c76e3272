// What a client may take of the gateway.
#ifndef TVQ_CLIENT_GATEWAY_HTTP_LIMITS_H_
#define TVQ_CLIENT_GATEWAY_HTTP_LIMITS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/fair_share.h"

namespace tvq::gateway {

struct HttpLimits {
  size_t max_header_bytes = size_t{16} << 10;
  // From the first byte of a header to its last.
  std::chrono::milliseconds header_timeout{10'000};
  // For each MiB of a body; all of it may take that and the time at min_body_rate.
  std::chrono::milliseconds body_timeout{60'000};
  size_t min_body_rate = size_t{128} << 10;  // bytes per second
  // Between two requests.
  std::chrono::milliseconds idle_timeout{120'000};
  // Until the kernel takes the next piece of an answer.
  std::chrono::milliseconds write_timeout{60'000};
  int max_connections = 20'000;
  // Of one address, which also leaves some to others (Peers) unless it may have all.
  int max_connections_per_address = 10'000;
  // One that was not used for so long is closed where there are so many that others wait.
  std::chrono::milliseconds unused_time{10'000};
};

// What an address has of a BodyBudget.
struct Buffered {
  int64_t bytes = 0;
  int64_t small = 0;  // of them: of requests that have at most kSmallBytes each
};

// Bytes of request bodies and whole answers in memory, of all connections together. Addresses share
// them fairly (FairShare, 15 times). Beside its share an address may have a little by small
// requests, so that its large ones do not lock them out. Used by the loop's thread alone.
class BodyBudget {
 public:
  static constexpr int64_t kSmallBytes = int64_t{64} << 10;

  explicit BodyBudget(size_t bytes) : total_(static_cast<int64_t>(bytes)), fair_(total_, 15) {}

  // For a request that has `taken` already, of an address that has `*mine`, which grows with it.
  bool Take(size_t bytes, size_t taken, Buffered* mine) {
    const auto more = static_cast<int64_t>(bytes), has = static_cast<int64_t>(taken);
    if (!MayTake(more, has, *mine)) return false;
    Change(has, has + more, mine);
    return true;
  }
  // Back, of the `taken` that the request has.
  void Give(size_t bytes, size_t taken, Buffered* mine) {
    const auto has = static_cast<int64_t>(taken);
    Change(has, has - static_cast<int64_t>(bytes), mine);
  }

  // Why one of an address that has `mine` was refused, and what would help.
  std::string Full(const Buffered& mine) const {
    return absl::StrCat("requests and answers take ", taken_, " bytes of the gateway's ", total_,
                        ", ", mine.bytes,
                        " of them this address's; try again when some have ended");
  }

 private:
  bool MayTake(int64_t more, int64_t has, const Buffered& mine) const {
    const int64_t left = total_ - taken_;
    const int64_t half_kept = total_ / 32;
    if (more == 0) return true;
    if (more > left) return false;
    const bool small = has + more <= kSmallBytes;
    if (small && mine.small + more <= half_kept && more <= left - half_kept) return true;
    // An address's only request may grow as if it had begun with all of it.
    const bool only = mine.bytes == has;
    // The last half of what is kept is for addresses that have little: half of what they found.
    if (more > fair_.common() - taken_) {
      return (only || small) && mine.bytes + more <= (left + mine.bytes) / 2;
    }
    return only || fair_.MayHave(mine.bytes + more, taken_ + more);
  }
  // Of a request from `before` bytes to `after`.
  void Change(int64_t before, int64_t after, Buffered* mine) {
    taken_ += after - before;
    mine->bytes += after - before;
    mine->small += SmallOf(after) - SmallOf(before);
  }
  static int64_t SmallOf(int64_t bytes) { return bytes <= kSmallBytes ? bytes : 0; }

  const int64_t total_;
  const FairShare fair_;
  int64_t taken_ = 0;
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_HTTP_LIMITS_H_
