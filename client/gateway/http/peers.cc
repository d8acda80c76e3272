#include "client/gateway/http/peers.h"

#include <algorithm>
#include <utility>

namespace tvq::gateway {
namespace {

constexpr size_t kWorthForgetting = 1000;

// A host has a network of 64 bits of IPv6 for itself; IPv4 comes through sockets of IPv6, too.
std::string NameOf(const asio::ip::address& address) {
  if (address.is_v4()) return address.to_string();
  const asio::ip::address_v6 v6 = address.to_v6();
  if (v6.is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, v6).to_string();
  }
  const auto bytes = v6.to_bytes();
  return {bytes.begin(), bytes.begin() + bytes.size() / 2};
}

}  // namespace

double Peer::GivenUp(Time now) const {
  const double passed = std::chrono::duration<double>(now - at_).count();
  return std::max(0.0, given_up_ - passed * kPerSecond);
}

void Peer::GaveUp(Time began, Time now) {
  if (now - began > kSoon) return;
  absl::MutexLock lock(&mutex_);
  given_up_ = std::min(GivenUp(now) + 1, kMost);  // it is good again after seconds
  at_ = now;
}

Peer::Standing Peer::StandingAt(Time now) const {
  absl::MutexLock lock(&mutex_);
  const double given_up = GivenUp(now);
  if (given_up < kDoubtful) return Standing::kGood;
  return given_up < kBad ? Standing::kDoubtful : Standing::kBad;
}

std::shared_ptr<Peer> Peers::Connect(const asio::ip::address& address, Peer::Time now) {
  if (peers_.size() >= std::max(forget_at_, kWorthForgetting)) Forget(now);
  std::shared_ptr<Peer>& peer = peers_[NameOf(address)];
  if (peer == nullptr) peer = std::make_shared<Peer>();
  if (peer->connections_ >= max_connections_) return nullptr;
  ++peer->connections_;
  return peer;
}

void Peers::Forget(Peer::Time now) {
  std::erase_if(peers_, [now](const auto& entry) {
    const Peer& peer = *entry.second;
    absl::MutexLock lock(&peer.mutex_);
    return peer.connections_ == 0 && peer.GivenUp(now) == 0;
  });
  forget_at_ = 2 * peers_.size();
}

}  // namespace tvq::gateway
