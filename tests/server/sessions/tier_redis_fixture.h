// Two servers' tiers on a Redis of the test's own.
#ifndef TVQ_TESTS_SERVER_SESSIONS_TIER_REDIS_FIXTURE_H_
#define TVQ_TESTS_SERVER_SESSIONS_TIER_REDIS_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/sessions/durable/redis/tier_redis.h"
#include "tests/server/message.h"
#include "tests/server/sessions/redis_process.h"

namespace tvq {

// Small, so that small states have many pieces.
inline constexpr int64_t kPieceBytes = 1024;

inline const std::string kId(32, '1');

class TierRedis : public ::testing::Test {
 protected:
  std::unique_ptr<DurableTier> Open() {
    return OpenRedisTier(
               redis_.url(),
               {.piece_bytes = kPieceBytes,
                .timeouts = {.connect = timeout_, .progress = timeout_, .query = timeout_}})
        .value();
  }

  absl::Duration timeout_ = absl::Seconds(30);
  RedisProcess redis_;
  std::unique_ptr<DurableTier> tier_ = Open();
  // Another server on the same Redis.
  std::unique_ptr<DurableTier> other_ = Open();
};

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_SESSIONS_TIER_REDIS_FIXTURE_H_
