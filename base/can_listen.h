#ifndef TVQ_BASE_CAN_LISTEN_H_
#define TVQ_BASE_CAN_LISTEN_H_

#include <string>

#include "absl/status/status.h"

namespace tvq {

// Whether a program may listen on a port of a host, an address or a name; port 0: on any. Of a
// name's addresses those that the machine does not have do not matter. UNAVAILABLE, "cannot listen
// on HOST:PORT: ...", tells what gRPC says only in its own log.
absl::Status CanListen(const std::string& host, int port);

}  // namespace tvq

#endif  // TVQ_BASE_CAN_LISTEN_H_
