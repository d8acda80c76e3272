// Connections to a Redis, over hiredis.
#ifndef TVQ_SERVER_SESSIONS_DURABLE_REDIS_REDIS_CONNECTION_H_
#define TVQ_SERVER_SESSIONS_DURABLE_REDIS_REDIS_CONNECTION_H_

#include <hiredis/hiredis.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/sessions/durable/redis/redis_address.h"

namespace tvq {

struct RedisTimeouts {
  absl::Duration connect = absl::Seconds(2);
  // For a command or its reply to move on, however long it is.
  absl::Duration progress = absl::Seconds(5);
  // The same where a caller waits for a short answer and can do without.
  absl::Duration query = absl::Seconds(1);
};

struct FreeRedisReply {
  void operator()(redisReply* reply) const;
};
using RedisReply = std::unique_ptr<redisReply, FreeRedisReply>;

// One connection. Any one thread at a time. Commands and replies may hold any bytes.
//
// Errors name the Redis by its URL without the password. UNAVAILABLE if it cannot be reached, is
// too slow, refuses the login, or cannot write (a replica, loading, its disk); RESOURCE_EXHAUSTED
// if its memory is full; INTERNAL for any other answer that is an error.
class RedisConnection {
 public:
  RedisConnection(const RedisAddress& address, const RedisTimeouts& timeouts);
  RedisConnection(const RedisConnection&) = delete;
  ~RedisConnection();

  // Connects and logs in. Once, before anything else.
  absl::Status Connect();
  // How long a command or its reply may stand still from now on; `query` at first.
  absl::Status SetPatience(absl::Duration progress);

  // Sends a command without waiting for the reply. Replies come in the order of the commands. Do
  // not send several long commands with long replies before you receive: both ends would wait for
  // ever.
  absl::Status Send(std::span<const std::string_view> command);
  absl::StatusOr<RedisReply> Receive();
  // Send and Receive.
  absl::StatusOr<RedisReply> Call(std::initializer_list<std::string_view> command);

  // Whether a new command may be sent and its reply would be the next: nothing is outstanding, no
  // call failed on the way and the other end has not closed.
  bool reusable() const;
  // Whether the last error was that Redis was too slow.
  bool timed_out() const { return timed_out_; }

 private:
  absl::Status Login();
  absl::Status Broken(std::string_view doing, int error_number);
  absl::Status BrokenSending(int error_number);

  const RedisAddress address_;
  const RedisTimeouts timeouts_;
  redisContext* context_ = nullptr;
  int64_t outstanding_ = 0;
  bool broken_ = false;
  bool timed_out_ = false;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_DURABLE_REDIS_REDIS_CONNECTION_H_
