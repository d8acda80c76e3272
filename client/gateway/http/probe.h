#ifndef TVQ_CLIENT_GATEWAY_HTTP_PROBE_H_
#define TVQ_CLIENT_GATEWAY_HTTP_PROBE_H_

#include <chrono>
#include <string>

#include "absl/status/status.h"

namespace tvq::gateway {

struct ProbeTarget {
  std::string host;
  int port = 0;
  bool tls = false;  // with whatever certificate is shown
  std::string path;
};

// Sends one GET and waits for the response's head. OK if that is a 200; else UNAVAILABLE, with what
// came instead. Has a loop of its own, and blocks for at most `patience`.
absl::Status Probe(const ProbeTarget& target, std::chrono::milliseconds patience);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_HTTP_PROBE_H_
