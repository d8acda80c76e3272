#ifndef TVQ_SERVER_RPC_LIMITS_CONNECTIONS_CONNECTION_LIMITS_H_
#define TVQ_SERVER_RPC_LIMITS_CONNECTIONS_CONNECTION_LIMITS_H_

#include <cstdint>

namespace tvq {

struct ConnectionLimits {
  double max_resets_per_second = 2000;   // of a connection; 0: no limit
  int64_t max_streams = 12'000;          // that a client may have open on a connection
  int64_t max_message_bytes = 16 << 20;  // of a request
  int64_t max_bytes = 256 << 20;  // of requests without a key that have not come whole, together
};

// While what a storm has left is taken apart, this part of the limits holds for what may come.
constexpr double kAfterStorm = 0.1;

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LIMITS_CONNECTIONS_CONNECTION_LIMITS_H_
