#ifndef TVQ_SERVER_RPC_LIMITS_CONNECTIONS_RESET_LIMITER_H_
#define TVQ_SERVER_RPC_LIMITS_CONNECTIONS_RESET_LIMITER_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/rpc/limits/connections/connection.h"

namespace tvq {

struct ConnectionLimits {
  double max_resets_per_second = 2000;  // of a connection; 0: no limit
  int64_t max_streams = 12'000;         // that a client may have open on a connection
};

// Says which connections are to be closed, because their clients open streams and reset them faster
// than they may, or have more than they may. One thread.
//
// A stream that is reset costs its client nothing and the server a call, so only streams count that
// were both opened and reset lately: a client may give up all of many old streams at once, and open
// many that it does not reset. What is counted leaks at the rate that is allowed; a second's worth
// of it may come at once.
//
// gRPC may take in streams for a while before it ends any, reset or not; all are live until then.
// A client that keeps to the limit of open streams never has many more than that live.
//
// The connections of one host (an IPv4 address, or the 64 bits of an IPv6 network) together may
// reset kConnections times what one may, and have twice as many new streams live; beyond it those
// with the most are closed. For kWary after one was closed its host may do only a kLess-th of all
// this at once: it opens another, perhaps. And a kLess-th of that, as long as more streams of the
// host are live than it may then have, those of closed connections among them: what it does is not
// taken apart as fast as it comes.
class ResetLimiter {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr int kConnections = 4;
  static constexpr int kLess = 10;
  static constexpr std::chrono::seconds kWary{10};
  static constexpr size_t kMaxHosts = 10'000;  // remembered; connections of others count alone

  enum class Reason { kResets, kStreams };

  struct Verdict {
    Connection connection;
    Reason reason;
    int64_t count = 0;  // of the streams that were too many
  };

  explicit ResetLimiter(const ConnectionLimits& limits);

  // `open`: all connections that there are. Those in the answer are taken for closed.
  std::vector<Verdict> Look(const std::vector<Connection>& open, Time now);

  size_t hosts() const { return hosts_.size(); }  // that are remembered

 private:
  // Leaky buckets.
  struct Lately {
    double opened = 0;
    double reset = 0;
    Time at;

    void Leak(double per_second, Time now);
    double churn() const { return std::min(opened, reset); }
  };

  struct Known {
    Connection seen;  // last
    Lately lately;
    bool closed = false;  // gRPC is yet to find out

    double churn() const { return lately.churn(); }
    double haste() const { return std::min(lately.opened, static_cast<double>(seen.live())); }
  };

  struct Host {
    Lately lately;
    std::optional<Time> closed;  // one of its connections
    std::vector<Known*> open;    // in this look
    int64_t live = 0;            // streams, of closed connections too

    bool IsWary(Time now) const { return closed && now - *closed < kWary; }
  };

  void Count(const Connection& connection, Time now);
  void JudgeAlone(Known* known, Time now, std::vector<Verdict>* closed);
  void JudgeTogether(Host* host, Time now, std::vector<Verdict>* closed);
  void CloseMost(Host* host, Reason reason, double (Known::*count)() const, double above,
                 std::vector<Verdict>* closed);
  static void Close(Known* known, Reason reason, double count, std::vector<Verdict>* closed);
  Host* HostOf(const Address& peer);
  double ShareOf(const Host* host, Time now) const;
  void Forget(const std::vector<Connection>& open, Time now);

  const ConnectionLimits limits_;
  std::map<int64_t, Known> known_;     // by id
  std::map<std::string, Host> hosts_;  // by the part of the address that tells hosts apart
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LIMITS_CONNECTIONS_RESET_LIMITER_H_
