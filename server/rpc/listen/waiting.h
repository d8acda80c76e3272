#ifndef TVQ_SERVER_RPC_LISTEN_WAITING_H_
#define TVQ_SERVER_RPC_LISTEN_WAITING_H_

#include <chrono>
#include <list>
#include <string>
#include <vector>

#include "server/rpc/limits/connections/admission.h"

namespace tvq {

// Of a client from which nothing has been read.
Admission::Load LoadOf(int fd);

// Clients of gRPC that wait to be let in. Their networks (NetworkOf) take turns. One thread.
class Waiting {
 public:
  using Time = Admission::Time;

  // How often to ask for those that may not enter at once.
  static constexpr std::chrono::milliseconds kPeriod{10};

  // `admission` must outlive it.
  explicit Waiting(Admission* admission) : admission_(admission) {}

  void Add(int fd, const std::string& network);
  void Remove(int fd);
  bool empty() const { return lines_.empty(); }
  Time next() const { return next_; }  // none enters before

  // Those that may enter now: those that have sent little first, and of a network's those that have
  // waited the longest. They wait no longer.
  std::vector<int> Enter(Time now);

 private:
  struct Client {
    int fd;
    Admission::Load load = Admission::Load::kLight;  // when it was looked at last
  };

  struct Line {
    std::string network;
    std::vector<Client> clients;  // the longest first, never empty

    // The first that has sent little, or else the first.
    std::vector<Client>::iterator Next();
  };

  Admission* const admission_;
  std::list<Line> lines_;  // that whose turn is next first
  Time next_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LISTEN_WAITING_H_
