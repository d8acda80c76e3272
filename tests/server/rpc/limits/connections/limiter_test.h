#ifndef TVQ_TESTS_SERVER_RPC_LIMITS_CONNECTIONS_LIMITER_TEST_H_
#define TVQ_TESTS_SERVER_RPC_LIMITS_CONNECTIONS_LIMITER_TEST_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/network.h"
#include "server/rpc/limits/connections/reset_limiter.h"

namespace tvq {

inline const std::string kAnasAddress(4, 'a');
inline const std::string kBob(4, 'b');

// Connections whose clients open streams and reset some, under a limiter.
class LimiterTest : public testing::Test {
 protected:
  LimiterTest() { Limit({.max_resets_per_second = 100, .max_streams = 1000}); }

  Connection& Open(int64_t id, const std::string& ip = kAnasAddress) {
    open_.push_back({.id = id,
                     .peer = {.ip = ip, .port = static_cast<int>(id)},
                     .standing = Standing::kKeyHolder});
    return open_.back();
  }

  // Of a network of its own.
  Connection& OpenAlone(int64_t id, Standing standing) {
    Connection& one = Open(id, std::string(4, static_cast<char>(id)));
    one.standing = standing;
    return one;
  }

  Connection& At(int64_t id) {
    return *std::ranges::find(open_, id, [](const Connection& c) { return c.id; });
  }

  void Storm(int64_t id, int64_t streams) {
    At(id).started += streams;
    At(id).failed += streams;
  }

  // The ids of those that are to be closed `after` the last look.
  std::vector<int64_t> Look(std::chrono::milliseconds after = std::chrono::milliseconds(10)) {
    now_ += after;
    verdicts_ = limiter_->Look(open_, now_);
    std::vector<int64_t> ids;
    ids.reserve(verdicts_.size());
    for (const auto& verdict : verdicts_) ids.push_back(verdict.connection.id);
    return ids;
  }

  void Close(int64_t id) {
    std::erase_if(open_, [id](const Connection& c) { return c.id == id; });
  }

  void Limit(const ConnectionLimits& limits) { limiter_.emplace(limits); }

  std::optional<ResetLimiter> limiter_;
  ResetLimiter::Time now_{std::chrono::hours(1)};
  std::vector<Connection> open_;
  std::vector<ResetLimiter::Verdict> verdicts_;
};

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_RPC_LIMITS_CONNECTIONS_LIMITER_TEST_H_
