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

// What is known of a connection's client. The first are the first to be closed.
enum class Standing {
  kUnknown,   // nothing, or it has reset as many calls as were answered
  kCaller,    // calls of it were answered, or one is being, on a server without keys
  kKeyHolder  // it has called with a key
};

// What gRPC counts of a connection, since it was opened.
struct Connection {
  int64_t id = 0;    // of gRPC; never used again
  std::string name;  // of the peer, as gRPC's contexts have it; empty if gRPC did not say
  Address peer;
  std::string local_ip;  // as that of the peer
  int local_port = 0;
  int64_t started = 0;    // streams
  int64_t succeeded = 0;  // of them, those that the server answered with a status
  int64_t failed = 0;     // of them, those that ended without, as the client reset them
  int64_t messages = 0;   // that came whole
  int64_t sent = 0;       // messages, to the client
  int64_t bytes = 0;      // that came
  int64_t unread = 0;     // of them, those that gRPC has not read
  bool ended = false;     // it has no socket any more, though gRPC lists it
  // When the last stream was opened, or the last message sent to the client, if that came later.
  absl::Time last_used = absl::InfinitePast();
  Standing standing = Standing::kUnknown;

  // Streams that take memory: open, or reset and not taken apart yet.
  int64_t live() const { return started - succeeded - failed; }
  // Bytes that gRPC has read, and may have seen what they ask for.
  int64_t read() const { return bytes - unread; }
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LIMITS_CONNECTIONS_CONNECTION_H_
