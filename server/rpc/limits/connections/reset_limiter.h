#ifndef TVQ_SERVER_RPC_LIMITS_CONNECTIONS_RESET_LIMITER_H_
#define TVQ_SERVER_RPC_LIMITS_CONNECTIONS_RESET_LIMITER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "server/rpc/limits/connections/connection_limits.h"
#include "server/rpc/limits/connections/crowd.h"
#include "server/rpc/limits/connections/group.h"
#include "server/rpc/limits/connections/watched.h"

namespace tvq {

// Says which connections are to be closed, because their clients open streams and reset them faster
// than they may, or have more than they may. One thread.
//
// What is counted (Lately) leaks at the rate that is allowed; a second's worth of it may come at
// once. gRPC may take in streams for a while before it ends any, reset or not; all are live until
// then. A client that keeps to the limit of open streams never has many more than that live.
//
// A connection whose bytes bring nothing is closed, whoever's it is (Watched::IsBarren).
//
// Together the connections of one network (NetworkOf) may reset kConnections times what one may,
// and have twice as many new streams live. Beyond that, those with the most are closed. For kWary
// after one was closed, its network may do only kAfterStorm of all this at once, for it may open
// another. It may do only kAfterStorm of that while more of its streams are live than it may then
// have, also those of closed connections: gRPC cleans up more slowly than they come. It may always
// do a few of each, so that honest clients there go on. All clients without a key share the limits
// of Crowd, in which they may reset as many as one network.
class ResetLimiter {
 public:
  using Time = Lately::Time;
  using Reason = Group::Reason;
  using Verdict = Group::Verdict;

  static constexpr int kConnections = 4;
  // As wary networks are let in at four a second (Admission), 240 of them are wary when it is their
  // turn again.
  static constexpr std::chrono::seconds kWary{60};
  static constexpr size_t kMaxNetworks = 10'000;  // remembered; connections of others count alone

  explicit ResetLimiter(const ConnectionLimits& limits);

  // `open`: all connections that there are. Those in the answer are taken for closed.
  std::vector<Verdict> Look(const std::vector<Connection>& open, Time now);

  bool IsCrowded() const { return crowd_.IsCrowded(); }

  // Of which a connection was closed lately.
  std::set<std::string> WaryNetworks(Time now) const;

  size_t networks() const { return networks_.size(); }  // that are remembered

 private:
  struct Network : Group {
    int64_t live = 0;  // streams, of closed connections too
    Time wary_until;

    bool IsWary(Time now) const { return now < wary_until; }
  };

  void Count(const Connection& connection, Time now);
  void JudgeAlone(Watched* one, Time now, std::vector<Verdict>* closed);
  void JudgeTogether(Network* network, Time now, std::vector<Verdict>* closed);
  Network* Find(const Address& peer);
  Network* Remember(const Address& peer, Time now);
  double ShareOf(const Network* network, Time now) const;
  void Forget(const std::vector<Connection>& open, Time now);

  const ConnectionLimits limits_;
  const double together_;                    // resets per second, of a network or without a key
  std::map<int64_t, Watched> watched_;       // by id
  std::map<std::string, Network> networks_;  // by name
  Crowd crowd_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LIMITS_CONNECTIONS_RESET_LIMITER_H_
