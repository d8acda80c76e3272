#ifndef TVQ_SERVER_METRICS_ENDPOINT_H_
#define TVQ_SERVER_METRICS_ENDPOINT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/metrics/snapshot.h"

namespace tvq {

// Serves GET /metrics over plain HTTP, in Prometheus' text format, in threads of its own.
class MetricsEndpoint {
 public:
  // `address`: HOST:PORT or [IPV6]:PORT. `snapshot` is called by those threads, once for each
  // request. UNAVAILABLE, naming the address, when it cannot listen.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(
      const std::string& address, std::function<MetricsSnapshot()> snapshot);
  // `snapshot` is not called afterwards.
  ~MetricsEndpoint();

 private:
  class Impl;
  explicit MetricsEndpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_METRICS_ENDPOINT_H_
