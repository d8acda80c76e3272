#ifndef TVQ_SERVER_RPC_LIMITS_CONNECTIONS_CONNECTION_GUARD_H_
#define TVQ_SERVER_RPC_LIMITS_CONNECTIONS_CONNECTION_GUARD_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/ticker.h"
#include "server/rpc/limits/connections/reset_limiter.h"

namespace tvq {

// A thread that closes the connections of clients that open and reset streams too fast, which gRPC
// 1.51 takes as long as memory lasts.
class ConnectionGuard {
 public:
  explicit ConnectionGuard(const ConnectionLimits& limits);

  int64_t closed() const { return closed_; }  // connections, since the start

 private:
  using Time = ResetLimiter::Time;

  void Look();
  void Close(const std::vector<ResetLimiter::Verdict>& verdicts, Time now);
  void Log(const ResetLimiter::Verdict& verdict) const;

  const int64_t calls_worth_a_look_;
  ResetLimiter limiter_;
  int64_t calls_ = 0;  // that had been started when the connections were looked at last
  Time next_look_;     // at the connections
  Time next_line_;     // of the log
  std::atomic<int64_t> closed_ = 0;
  Ticker ticker_;  // last: it uses all of the above
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LIMITS_CONNECTIONS_CONNECTION_GUARD_H_
