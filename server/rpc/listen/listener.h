// Accepts the clients of the server's port, and hands to gRPC those that speak gRPC.
#ifndef TVQ_SERVER_RPC_LISTEN_LISTENER_H_
#define TVQ_SERVER_RPC_LISTEN_LISTENER_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "base/descriptors.h"
#include "server/rpc/limits/connections/admission.h"
#include "server/rpc/limits/connections/key_holders.h"
#include "server/rpc/listen/listening_sockets.h"
#include "server/rpc/listen/room.h"
#include "server/rpc/listen/waiting.h"

namespace tvq {

struct ListenerOptions {
  bool tls = false;
  // For which what was sent to a client may stay unacknowledged, until the connection ends.
  std::chrono::milliseconds acknowledge{20'000};
  int max_descriptors = 1024;  // that this process may have
  // About: what the process opens later counts, too. The guard needs 20 us to look at each.
  int max_connections = 4096;
  size_t max_handshakes = Room::kMaxHandshakes;
  const KeyHolders* key_holders = nullptr;  // of a server with keys; must outlive the listener
};

// Once descriptors have run out, gRPC 1.51 never accepts again, and it takes any number of clients
// that say nothing. So a thread of the listener accepts. A client is a stranger until it has sent
// the first bytes of HTTP/2 or of a TLS handshake, and `admission` lets it in. There are at most
// kMaxStrangers of them, each for at most kFirstBytes. Then `take` owns the connection, from which
// nothing has been read. A client that speaks HTTP/1 is told where to go. When descriptors are
// short, strangers are closed, first suspects and those of a network with many; then connections
// that do nothing, or that have no key where one is needed. When all are busy, new ones are closed
// at once, except some of networks that have no connection yet. max_connections acts like a limit
// on descriptors.
class Listener {
 public:
  static constexpr size_t kMaxStrangers = 1024;
  static constexpr std::chrono::seconds kFirstBytes{10};

  // UNAVAILABLE where there are no descriptors for it. `admission` must outlive the listener.
  static absl::StatusOr<std::unique_ptr<Listener>> Create(ListeningSockets listening,
                                                          const ListenerOptions& options,
                                                          Admission* admission);
  ~Listener() { Stop(); }
  Listener(const Listener&) = delete;

  // Accepts from now on, on a thread of its own, which calls `take`. Once.
  void Start(std::function<void(Descriptor)> take);

  // Closes the port and the strangers. One thread.
  void Stop();

  // Connections closed as descriptors were short, or handshakes too many. Any thread.
  int64_t closed() const { return closed_; }

 private:
  using Time = std::chrono::steady_clock::time_point;

  struct Stranger {
    Descriptor fd;
    Address peer;
    std::string network;  // of the peer
    Time until;           // it is closed then
    // What else it sends is dropped, so that it reads the answer.
    std::optional<Time> answered;
    size_t dropped = 0;  // bytes
    bool waits = false;  // to be let in
  };

  Listener(ListeningSockets listening, const ListenerOptions& options, Admission* admission,
           Descriptor epoll, Descriptor wake);

  void Run();
  void Watch(int fd, uint32_t events) const;
  void Accept(int listening, Time now);
  void Enter(Descriptor fd, Time now);
  // `ended`: the stranger sends no more.
  void Look(int fd, bool ended, Time now);
  void Answer(Stranger& stranger, Time now);
  // Reads a part of what an answered client still sends: others have their turn before the next.
  void Drop(int fd, Time now);
  void HandOver(Stranger stranger, Time now);
  void SetEnd(Stranger& stranger, Time until);
  Stranger Leave(int fd);
  void CloseLate(Time now);
  // Closes strangers, or connections that do nothing. False if there are none of either.
  bool MakeRoom(Time now);
  // At most `most` of those that came by `before`: those that are suspect first, then those of
  // which the most others of their network came later, then the oldest. Returns how many.
  int64_t CloseStrangers(Time before, size_t most);
  void Pause(Time until);
  void Resume();
  int Timeout(Time now) const;
  void LogShortage(Time now);
  void LogHandshakes(int closed, Time now);

  ListeningSockets listening_;
  const ListenerOptions options_;
  const int most_descriptors_;
  std::function<void(Descriptor)> take_;  // constant once the thread runs
  Room room_;
  const Admission* const admission_;
  Waiting waiting_;  // of the strangers
  const Descriptor epoll_;
  const Descriptor wake_;
  std::map<int, Stranger> strangers_;
  std::set<std::pair<Time, int>> ends_;  // of the strangers
  std::optional<Time> paused_;           // accepts nothing until then
  // Of the log.
  Time next_shortage_;
  Time next_handshakes_;
  int64_t refused_ = 0;
  std::atomic<int64_t> closed_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LISTEN_LISTENER_H_
