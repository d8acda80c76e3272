#ifndef TVQ_SERVER_RPC_LISTEN_WAITING_H_
#define TVQ_SERVER_RPC_LISTEN_WAITING_H_

#include <chrono>
#include <vector>

#include "server/rpc/limits/connections/admission.h"

namespace tvq {

// Clients of gRPC that wait to be let in. One thread.
class Waiting {
 public:
  using Time = Admission::Time;

  // How often to ask.
  static constexpr std::chrono::milliseconds kPeriod{10};

  // `admission` must outlive it.
  explicit Waiting(Admission* admission) : admission_(admission) {}

  void Add(int fd, const Address& peer) { peers_.push_back({fd, peer}); }
  void Remove(int fd);
  bool empty() const { return peers_.empty(); }

  // Those that may enter now: of those that have sent little the longest first, then of the others.
  // They wait no longer.
  std::vector<int> Enter(Time now);

 private:
  struct Peer {
    int fd;
    Address address;
  };

  Admission* const admission_;
  std::vector<Peer> peers_;  // the longest first
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LISTEN_WAITING_H_
