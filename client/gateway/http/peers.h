// What each client's address has of the gateway.
#ifndef TVQ_CLIENT_GATEWAY_HTTP_PEERS_H_
#define TVQ_CLIENT_GATEWAY_HTTP_PEERS_H_

#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "base/fair_share.h"
#include "base/mutex.h"
#include "client/gateway/http/limits.h"

namespace tvq::gateway {

namespace asio = boost::asio;

// A network of addresses: its connections, and the calls that were begun for it and soon given up.
// A server closes the connection of a client that opens and resets calls too fast, and the
// gateway's connections carry the calls of all its clients. Any thread, unless it says otherwise.
class Peer {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Only calls given up within this time count: a client may end many long streams at once.
  static constexpr std::chrono::seconds kSoon{2};
  // So many are forgotten; a server allows some 1,000 in a second by default.
  static constexpr double kPerSecond = 200;

  enum class Standing {
    kGood,
    kDoubtful,  // gave up many: those that ask shall wait a moment, and those that hang up make no
                // call
    kBad        // gave up as many after that moment: shall make no calls
  };
  static constexpr double kDoubtful = 200, kBad = 1000, kMost = 1200;

  // A call that began at `began` was given up.
  void GaveUp(Time began, Time now);
  // For the loop's thread.
  int connections() const { return connections_; }
  Buffered* buffered() { return &buffered_; }
  Standing StandingAt(Time now) const;

 private:
  friend class Peers;

  double GivenUp(Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // For the loop's thread.
  int connections_ = 0;
  Buffered buffered_;
  mutable Mutex mutex_;
  double given_up_ ABSL_GUARDED_BY(mutex_) = 0;  // at `at_`; kPerSecond are forgotten
  Time at_ ABSL_GUARDED_BY(mutex_);
};

// Those that have connections, or gave up calls lately. They share the connections fairly
// (FairShare, 15 times), unless one may have all. Used by the loop's thread alone.
class Peers {
 public:
  // Of the connections, `max_of_address` are one address's at most.
  Peers(int max_connections, int max_of_address)
      : max_connections_(max_connections),
        max_of_address_(max_of_address),
        fair_(max_connections, 15) {}

  // One more connection of this address's network (NetworkOf); nullptr if it has as many as it may.
  // For an address that has none there is one as long as not all are taken.
  std::shared_ptr<Peer> Connect(const asio::ip::address& address, Peer::Time now);
  void Disconnect(Peer& peer) {
    --peer.connections_;
    --connections_;
  }

  size_t size() const { return peers_.size(); }

 private:
  bool MayHave(int connections) const;  // one of them is the next
  void Forget(Peer::Time now);

  const int max_connections_;
  const int max_of_address_;
  const FairShare fair_;
  int connections_ = 0;                                 // of all
  std::map<std::string, std::shared_ptr<Peer>> peers_;  // by network
  size_t forget_at_ = 0;                                // so many
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_HTTP_PEERS_H_
