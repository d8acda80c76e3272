// Makes room among a process's descriptors for clients that connect.
#ifndef TVQ_SERVER_RPC_LISTEN_ROOM_H_
#define TVQ_SERVER_RPC_LISTEN_ROOM_H_

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/time/time.h"
#include "base/descriptors.h"
#include "server/rpc/limits/connections/connection.h"
#include "server/rpc/limits/connections/key_holders.h"

namespace tvq {

// Picks the connections that may be closed if some have to be: first those that never had a stream,
// oldest first, then those not used for kIdle, longest unused first. None has a live stream.
// `keys`: the server has keys; then only streams of key holders count.
constexpr absl::Duration kIdle = absl::Seconds(10);
std::vector<Connection> IdlestConnections(std::vector<Connection> open, absl::Time now, bool keys);

// Closes at most `most` of `chosen`, the first that still have the same standing and have had no
// call since. If the id is 0, gRPC did not have the connection yet; it is closed if it is still in
// its handshake. On a server with keys, a call of an unknown client counts only if it is its first:
// the client may turn out to have a key. `newest`: the largest id that gRPC had given when they
// were chosen. `key_holders`: null on a server without keys. Returns how many were closed.
int CloseStillIdle(const std::vector<Connection>& chosen, size_t most, int64_t newest,
                   const KeyHolders* key_holders);

// The connections to one port, which gRPC serves. One thread, unless it says otherwise.
class Room {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // gRPC closes what has not ended its TLS handshake, or sent no HTTP/2 settings, by then.
  static constexpr std::chrono::seconds kHandshake{10};
  // About so many may be in their TLS handshake at once. One takes some 50 kB, all 200 MB. A core
  // ends some 1,000 a second, so that honest clients are as many only where thousands connect at
  // the same moment.
  static constexpr size_t kMaxHandshakes = 4096;
  // Left for the files of sessions, among others, where the limit leaves as many.
  static constexpr int kReserve = 256;

  // `port`: where clients connect. `max_descriptors`: that this process may have. `key_holders`: of
  // a server with keys.
  Room(int port, bool tls, int max_descriptors, size_t max_handshakes = kMaxHandshakes,
       const KeyHolders* key_holders = nullptr);

  // Whether `fd`, the newest descriptor, is of the reserve. The system gives the smallest that is
  // free, so all smaller ones are taken.
  bool IsShort(int fd) const { return fd >= most_ - reserve_; }

  // Whether it is of the reserve's second half, which clients get if it IsKeptFor them.
  bool IsFull(int fd) const { return fd >= most_ - reserve_ / 2; }

  // Whether `fd`, the connection of `peer`, is below the last quarter of the reserve, and no other
  // is of the network of `peer`. Takes some 2 us for each descriptor.
  bool IsKeptFor(int fd, const Address& peer) const;

  // So many that `clients` of them are not of the reserve.
  static constexpr int DescriptorsFor(int clients) {
    return clients + std::min(kReserve, clients / 3);
  }

  // gRPC has this client's connection from now on. Of too many that are in their handshake it
  // closes the oldest; returns how many.
  int HandedOver(const Address& peer, Time now);

  // Closes connections that do nothing, or call without a key where one is needed: those in their
  // handshake, the oldest first, and the idlest where these are few. Returns how many, whose
  // descriptors are free a moment later.
  int Make(Time now);

  // Takes at most one part in kShareOfTime of a core's time: Make does nothing until then.
  Time next() const { return next_; }

 private:
  struct Handshake {
    Address peer;
    Time since;
  };

  static constexpr int kShareOfTime = 5;
  // Closing takes as many, of its own and of what is closed.
  static constexpr size_t kSpares = 2;

  std::vector<Connection> Open() const;
  // Forgets the handshakes that have ended, by themselves or with their connection.
  void Settle(const std::vector<Connection>& open, Time now);
  int Close(const std::vector<Connection>& chosen, size_t most, int64_t newest);
  void KeepSpares();
  // Takes the oldest of those that are under way.
  std::vector<Connection> TakeHandshakes(size_t most);

  const int port_;
  const bool tls_;
  const int most_;
  const int reserve_;
  const size_t max_handshakes_;
  const KeyHolders* const key_holders_;     // null on a server without keys
  std::array<Descriptor, kSpares> spares_;  // for when there are no others
  std::deque<Handshake> handshakes_;        // perhaps under way, the oldest first; with TLS alone
  size_t settle_at_;                        // so many of them
  Time next_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LISTEN_ROOM_H_
