#ifndef TVQ_SERVER_RPC_SERVICES_DRAIN_ORDER_H_
#define TVQ_SERVER_RPC_SERVICES_DRAIN_ORDER_H_

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace tvq {

// How an operator wants the server to stop.
struct DrainOrder {
  std::optional<std::chrono::nanoseconds> timeout;  // unset: as the server's flags say
  // Who the operator believes takes the sessions over; empty: whoever the flags name.
  std::string peer;
};

// Begins to drain and returns at once; harmless when that has begun already. Any thread.
using BeginDrain = std::function<absl::Status(const DrainOrder&)>;

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_SERVICES_DRAIN_ORDER_H_
