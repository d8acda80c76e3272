// Where a Redis is and how to log in.
#ifndef TVQ_SERVER_SESSIONS_DURABLE_REDIS_REDIS_ADDRESS_H_
#define TVQ_SERVER_SESSIONS_DURABLE_REDIS_REDIS_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"

namespace tvq {

struct RedisAddress {
  std::string host;  // empty: a Unix socket
  int port = 6379;
  std::string socket_path;
  std::string user;  // empty: Redis's default user
  std::string password;
  int database = 0;

  // As a URL for messages, without user and password.
  std::string Display() const;
};

// Reads redis://[user:password@]host[:port][/database] and unix://[user:password@]/path. User and
// password may have percent escapes, a host in brackets is an IPv6 address. INVALID_ARGUMENT, never
// showing a password, for anything else; rediss:// (TLS) is not supported.
absl::StatusOr<RedisAddress> ParseRedisUrl(const std::string& url);

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_DURABLE_REDIS_REDIS_ADDRESS_H_
