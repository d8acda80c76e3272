#ifndef TVQ_SERVER_RPC_LIMITS_CONNECTIONS_GROUP_H_
#define TVQ_SERVER_RPC_LIMITS_CONNECTIONS_GROUP_H_

#include <cstdint>
#include <vector>

#include "server/rpc/limits/connections/connection.h"
#include "server/rpc/limits/connections/watched.h"

namespace tvq {

// Connections that are judged together, in one look after the other.
struct Group {
  using Count = double (Watched::*)() const;

  enum class Reason {
    kResets,   // of the connection, or of its network
    kStreams,  // of the connection, or of its network
    kCrowd,    // streams or resets of all without a key
    kBytes,    // of all without a key
    kBarren    // bytes of the connection
  };

  struct Verdict {
    Connection connection;
    Reason reason;
    int64_t count = 0;  // of what was too much
  };

  Lately lately;
  std::vector<Watched*> open;  // in this look

  void Begin(double per_second, Lately::Time now);
  void Add(Watched* one, const Lately& fresh);
  // Of those that stay open.
  double Sum(Count count) const;
  // Closes connections until `count` is less by `above`. Those of a lower standing come first, then
  // those with the most of it in proportion to what they were served.
  void CloseMost(Reason reason, Count count, double above, std::vector<Verdict>* closed);
  static void Close(Watched* one, Reason reason, double count, std::vector<Verdict>* closed);
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LIMITS_CONNECTIONS_GROUP_H_
