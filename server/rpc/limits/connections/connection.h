#ifndef TVQ_SERVER_RPC_LIMITS_CONNECTIONS_CONNECTION_H_
#define TVQ_SERVER_RPC_LIMITS_CONNECTIONS_CONNECTION_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace tvq {

// An end of a TCP connection.
struct Address {
  std::string ip;  // 4 or 16 bytes, in network order
  int port = 0;

  bool operator==(const Address&) const = default;
};

// What gRPC counts of a connection, since it was opened.
struct Connection {
  int64_t id = 0;  // of gRPC; never used again
  Address peer;
  int local_port = 0;
  int64_t started = 0;    // streams
  int64_t succeeded = 0;  // of them, those that the server answered with a status
  int64_t failed = 0;     // of them, those that ended without, as the client reset them
  // When the last stream was opened, or the last message sent to the client, if that came later.
  absl::Time last_used = absl::InfinitePast();

  // Streams that take memory: open, or reset and not taken apart yet.
  int64_t live() const { return started - succeeded - failed; }
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LIMITS_CONNECTIONS_CONNECTION_H_
