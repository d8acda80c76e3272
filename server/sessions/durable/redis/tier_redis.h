// Sessions in a Redis, which several servers may share.
#ifndef TVQ_SERVER_SESSIONS_DURABLE_REDIS_TIER_REDIS_H_
#define TVQ_SERVER_SESSIONS_DURABLE_REDIS_TIER_REDIS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/sessions/durable/durable_tier.h"
#include "server/sessions/durable/redis/redis_connection.h"

namespace tvq {

struct RedisTierOptions {
  // Of the states of all sessions in this Redis; 0: BudgetWithin its free memory.
  int64_t budget_bytes = 0;
  int64_t piece_bytes = int64_t{8} << 20;
  std::string keys = "tvq:";  // what the names of all its keys begin with
  RedisTimeouts timeouts;
};

// A DurableTier in the Redis at `url` (see ParseRedisUrl). Durable is what Redis makes durable: its
// append-only file is the operator's choice. Not a Redis Cluster.
//
// A session is written by the server that claimed it last, or by the first to store it if none has
// claimed it. Put, Touch and Delete of any other server answer ABORTED. A session that was deleted
// stays so for a day, in which no server can claim or store it.
//
// Errors of the connection: see RedisConnection; UNAVAILABLE, too, if the data that Redis had were
// lost between two steps of one call. FAILED_PRECONDITION for a Redis that drops keys of its own
// accord when its memory is full.
absl::StatusOr<std::unique_ptr<DurableTier>> OpenRedisTier(const std::string& url,
                                                           const RedisTierOptions& options);

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_DURABLE_REDIS_TIER_REDIS_H_
