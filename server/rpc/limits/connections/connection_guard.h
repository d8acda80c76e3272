#ifndef TVQ_SERVER_RPC_LIMITS_CONNECTIONS_CONNECTION_GUARD_H_
#define TVQ_SERVER_RPC_LIMITS_CONNECTIONS_CONNECTION_GUARD_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/ticker.h"
#include "server/rpc/limits/connections/admission.h"
#include "server/rpc/limits/connections/key_holders.h"
#include "server/rpc/limits/connections/reset_limiter.h"

namespace tvq {

// Between a look at all connections, which took so much of a core's time, and the next.
std::chrono::nanoseconds PauseAfterLook(std::chrono::nanoseconds took);

// A thread that closes the connections of clients that open and reset streams too fast, which gRPC
// 1.51 takes as long as memory lasts, and tells `admission` what it has seen.
class ConnectionGuard {
 public:
  // `key_holders`: null on a server without keys. Both must outlive the guard.
  ConnectionGuard(const ConnectionLimits& limits, Admission* admission, KeyHolders* key_holders);

  int64_t closed() const { return closed_; }  // connections, since the start

 private:
  using Time = ResetLimiter::Time;

  void Look();
  void LookAtConnections(Time begin);
  std::vector<Connection> Open() const;
  void Close(const std::vector<ResetLimiter::Verdict>& verdicts, Time now);
  void Log(const ResetLimiter::Verdict& verdict) const;

  const int64_t calls_worth_a_look_;
  Admission* const admission_;
  KeyHolders* const key_holders_;
  ResetLimiter limiter_;
  bool alert_ = false;    // the last look has shown something that others have to follow
  int64_t calls_ = 0;     // that had been started when the connections were looked at last
  int64_t resident_ = 0;  // memory then, or less
  Time next_look_;        // at the connections, at the soonest
  Time look_by_;          // and at the latest
  Time next_line_;        // of the log
  std::atomic<int64_t> closed_ = 0;
  Ticker ticker_;  // last: it uses all of the above
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LIMITS_CONNECTIONS_CONNECTION_GUARD_H_
