// What a client may take of the gateway.
#ifndef TVQ_CLIENT_GATEWAY_HTTP_LIMITS_H_
#define TVQ_CLIENT_GATEWAY_HTTP_LIMITS_H_

#include <chrono>
#include <cstddef>

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
  // Of one address, so that it cannot take them all.
  int max_connections_per_address = 10'000;
  // One that was not used for so long is closed where there are so many that others wait.
  std::chrono::milliseconds unused_time{10'000};
};

// Bytes of request bodies and whole answers in memory, of all connections together. Used by the
// loop's thread alone.
class BodyBudget {
 public:
  // What one request may take of the reserve; a few that take much cannot lock the others out.
  static constexpr size_t kSmallBytes = size_t{64} << 10;

  explicit BodyBudget(size_t bytes) : reserve_(bytes / 16), free_(bytes) {}

  // For a request that has `taken` already.
  bool Take(size_t bytes, size_t taken) {
    const size_t kept = taken + bytes <= kSmallBytes ? 0 : reserve_;
    if (bytes > free_ || free_ - bytes < kept) return false;
    free_ -= bytes;
    return true;
  }
  void Give(size_t bytes) { free_ += bytes; }

 private:
  const size_t reserve_;
  size_t free_;
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_HTTP_LIMITS_H_
