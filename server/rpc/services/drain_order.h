#ifndef TVQ_SERVER_RPC_SERVICES_DRAIN_ORDER_H_
#define TVQ_SERVER_RPC_SERVICES_DRAIN_ORDER_H_

#include <chrono>
#include <functional>
#include <optional>

namespace tvq {

// How an operator wants the server to stop.
struct DrainOrder {
  std::optional<std::chrono::nanoseconds> timeout;  // unset: as the server's flags say
};

// Begins to drain and returns at once; harmless when that has begun already. Any thread.
using BeginDrain = std::function<void(const DrainOrder&)>;

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_SERVICES_DRAIN_ORDER_H_
