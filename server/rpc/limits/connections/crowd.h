#ifndef TVQ_SERVER_RPC_LIMITS_CONNECTIONS_CROWD_H_
#define TVQ_SERVER_RPC_LIMITS_CONNECTIONS_CROWD_H_

#include <cstdint>
#include <vector>

#include "server/rpc/limits/connections/connection_limits.h"
#include "server/rpc/limits/connections/group.h"
#include "server/rpc/limits/connections/watched.h"

namespace tvq {

// All connections of clients without a key. Addresses cost their owner little, so there is one
// bound for all of them. Beyond it those with the most are closed.
class Crowd {
 public:
  using Time = Lately::Time;

  // Live at once, or max_streams if that is more. A stream takes 13 kB of gRPC's: 156 MB in all,
  // and about as much until what was closed is taken apart.
  static constexpr int64_t kStreams = 12'000;
  // The part of kStreams that may be new while kMany or more networks are wary: other networks are
  // then likely to belong to the same owner, and all of them may begin at once.
  static constexpr double kNewAmongMany = 0.25;
  static constexpr int kMany = 8;
  // There is a crowd if new streams reach this part of what may be new, or new bytes this part of
  // max_bytes. New connections then wait, so that what they bring until the next look still fits.
  // What has been held for long does not count, or one client could keep all others out.
  static constexpr double kCrowded = 0.25;

  // `resets`: that may come in a second; 0: no limit, neither of them nor of streams.
  Crowd(const ConnectionLimits& limits, double resets);

  void Begin(int wary_networks, Time now);
  // What it has done since the last look.
  void Add(Watched* one, const Lately& fresh);
  // After connections were judged alone.
  void Judge(std::vector<Group::Verdict>* closed);

  // Whether others should wait.
  bool IsCrowded() const;

 private:
  // Also those that have begun nothing yet: in a storm from many connections each of them would
  // bring some hundred streams before it is seen.
  void CloseUnknown(std::vector<Group::Verdict>* closed);
  // Removes what closed connections did from the counts of the open ones.
  void Settle();

  const double resets_;
  const double streams_;
  const double max_bytes_;
  double most_new_ = 0;
  Group group_;
  // Of closed connections, too, until gRPC has taken them apart.
  double new_live_ = 0;
  double new_bytes_ = 0;
  double bytes_ = 0;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LIMITS_CONNECTIONS_CROWD_H_
