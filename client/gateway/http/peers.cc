#include "client/gateway/http/peers.h"

#include <algorithm>
#include <string>

#include "base/network.h"

namespace tvq::gateway {
namespace {

constexpr size_t kWorthForgetting = 1000;

template <typename Bytes>
std::string NetworkOfBytes(const Bytes& bytes) {
  return NetworkOf({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::string NetworkOfAddress(const asio::ip::address& address) {
  return address.is_v4() ? NetworkOfBytes(address.to_v4().to_bytes())
                         : NetworkOfBytes(address.to_v6().to_bytes());
}

}  // namespace

double Peer::GivenUp(Time now) const {
  const double passed = std::chrono::duration<double>(now - at_).count();
  return std::max(0.0, given_up_ - passed * kPerSecond);
}

void Peer::GaveUp(Time began, Time now) {
  if (now - began > kSoon) return;
  const MutexLock lock(&mutex_);
  given_up_ = std::min(GivenUp(now) + 1, kMost);  // it is good again after seconds
  at_ = now;
}

Peer::Standing Peer::StandingAt(Time now) const {
  const MutexLock lock(&mutex_);
  const double given_up = GivenUp(now);
  if (given_up < kDoubtful) return Standing::kGood;
  return given_up < kBad ? Standing::kDoubtful : Standing::kBad;
}

std::shared_ptr<Peer> Peers::Connect(const asio::ip::address& address, Peer::Time now) {
  if (peers_.size() >= std::max(forget_at_, kWorthForgetting)) Forget(now);
  std::shared_ptr<Peer>& peer = peers_[NetworkOfAddress(address)];
  if (peer == nullptr) peer = std::make_shared<Peer>();
  if (!MayHave(peer->connections_ + 1)) return nullptr;
  ++peer->connections_;
  ++connections_;
  return peer;
}

bool Peers::MayHave(int connections) const {
  if (connections > max_of_address_) return false;
  if (max_of_address_ >= max_connections_) return true;
  return connections == 1 || fair_.MayHave(connections, connections_ + 1);
}

void Peers::Forget(Peer::Time now) {
  std::erase_if(peers_, [now](const auto& entry) {
    const Peer& peer = *entry.second;
    const MutexLock lock(&peer.mutex_);
    return peer.connections_ == 0 && peer.GivenUp(now) == 0;
  });
  forget_at_ = 2 * peers_.size();
}

}  // namespace tvq::gateway
