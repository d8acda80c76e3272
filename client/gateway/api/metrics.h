// What the gateway counts, for Prometheus.
#ifndef TVQ_CLIENT_GATEWAY_API_METRICS_H_
#define TVQ_CLIENT_GATEWAY_API_METRICS_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tvq::gateway {

// Used by the loop's thread alone.
class Metrics {
 public:
  using Duration = std::chrono::steady_clock::duration;

  explicit Metrics(const std::string& version);
  ~Metrics();

  // `route` is a pattern of paths, empty for what matched none.
  void Request(std::string_view route, std::string_view method, int status, Duration took,
               uint64_t bytes_sent);
  void StreamBegan();
  void StreamEnded();
  // From the request's first byte to its first event.
  void FirstEvent(Duration took);
  void Connections(int64_t count);

  // In Prometheus' text format.
  std::string Text() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_API_METRICS_H_
