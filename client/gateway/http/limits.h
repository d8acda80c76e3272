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
  // For each MiB of a body.
  std::chrono::milliseconds body_timeout{60'000};
  // Between two requests.
  std::chrono::milliseconds idle_timeout{120'000};
  // Until the kernel takes the next piece of an answer.
  std::chrono::milliseconds write_timeout{60'000};
  int max_connections = 20'000;
};

// Bytes of request bodies and whole answers in memory, of all connections together. Used by the
// loop's thread alone.
class BodyBudget {
 public:
  explicit BodyBudget(size_t bytes) : free_(bytes) {}

  bool Take(size_t bytes) {
    if (bytes > free_) return false;
    free_ -= bytes;
    return true;
  }
  void Give(size_t bytes) { free_ += bytes; }

 private:
  size_t free_;
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_HTTP_LIMITS_H_
