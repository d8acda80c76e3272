#include "server/rpc/limits/connections/reset_limiter.h"

#include <algorithm>
#include <utility>

#include "base/network.h"

namespace tvq {
namespace {

// Live streams for each that may be open: answered or reset streams are cleaned up a little later.
constexpr double kLiveForOpen = 1.25;

// Times what a connection may have open, for the new ones of a network.
constexpr double kLiveTogether = 2;

// What a client that does nothing unusual comes to: streams are live a little longer than calls.
constexpr double kUsual = 8;

// That may come at once of what is limited to `most`.
double Part(double share, double most) { return std::max(share * most, std::min(most, kUsual)); }

}  // namespace

ResetLimiter::ResetLimiter(const ConnectionLimits& limits)
    : limits_(limits),
      together_(kConnections * limits.max_resets_per_second),
      crowd_(limits, together_) {}

std::vector<ResetLimiter::Verdict> ResetLimiter::Look(const std::vector<Connection>& open,
                                                      Time now) {
  int wary = 0;
  for (auto& [name, network] : networks_) {
    network.Begin(together_, now);
    network.live = 0;
    wary += network.IsWary(now) ? 1 : 0;
  }
  crowd_.Begin(wary, now);
  for (const Connection& connection : open) Count(connection, now);
  std::vector<Verdict> closed;
  for (const Connection& connection : open) {
    JudgeAlone(&watched_[connection.id], now, &closed);
  }
  for (auto& [name, network] : networks_) JudgeTogether(&network, now, &closed);
  crowd_.Judge(&closed);
  for (const Verdict& verdict : closed) {
    if (Network* const network = Remember(verdict.connection.peer, now)) {
      network->wary_until = now + kWary;
    }
  }
  Forget(open, now);
  return closed;
}

void ResetLimiter::Count(const Connection& connection, Time now) {
  Watched& one = watched_[connection.id];
  const Lately fresh = one.See(connection, limits_, now);
  if (one.HasGone(now)) return;
  if (connection.standing != Standing::kKeyHolder) crowd_.Add(&one, fresh);
  Network* const network =
      fresh.opened > 0 ? Remember(connection.peer, now) : Find(connection.peer);
  if (network == nullptr) return;
  network->live += connection.live();
  if (!one.closed) network->Add(&one, fresh);
}

void ResetLimiter::JudgeAlone(Watched* one, Time now, std::vector<Verdict>* closed) {
  const double per_second = limits_.max_resets_per_second;
  const double share = ShareOf(Find(one->seen.peer), now);
  const auto max_streams = static_cast<double>(limits_.max_streams);
  if (one->IsBarren(share * static_cast<double>(limits_.max_message_bytes))) {
    Group::Close(one, Reason::kBarren, one->barren, closed);
  } else if (per_second > 0 && one->churn() > Part(share, per_second)) {
    Group::Close(one, Reason::kResets, one->churn(), closed);
  } else if (one->live() > kLiveForOpen * max_streams ||
             (per_second > 0 && share < 1 && one->new_live() > Part(share, max_streams))) {
    Group::Close(one, Reason::kStreams, one->live(), closed);
  }
}

void ResetLimiter::JudgeTogether(Network* network, Time now, std::vector<Verdict>* closed) {
  if (together_ <= 0) return;
  const double share = ShareOf(network, now);
  network->CloseMost(Reason::kResets, &Watched::churn,
                     network->lately.churn() - Part(share, together_), closed);
  const double streams = kLiveTogether * Part(share, static_cast<double>(limits_.max_streams));
  network->CloseMost(Reason::kStreams, &Watched::new_live,
                     network->Sum(&Watched::new_live) - streams, closed);
}

// Null if it is not remembered.
ResetLimiter::Network* ResetLimiter::Find(const Address& peer) {
  const auto found = networks_.find(NetworkOf(peer.ip));
  return found == networks_.end() ? nullptr : &found->second;
}

// Null if there are too many.
ResetLimiter::Network* ResetLimiter::Remember(const Address& peer, Time now) {
  Network* network = Find(peer);
  if (network == nullptr && networks_.size() < kMaxNetworks) {
    network = &networks_[NetworkOf(peer.ip)];
    network->lately.at = now;
  }
  return network;
}

// Of all limits, that it may come up to at once.
double ResetLimiter::ShareOf(const Network* network, Time now) const {
  if (network == nullptr || !network->IsWary(now)) return 1;
  const double most = kLiveTogether * kAfterStorm * static_cast<double>(limits_.max_streams);
  return static_cast<double>(network->live) > most ? kAfterStorm * kAfterStorm : kAfterStorm;
}

std::set<std::string> ResetLimiter::WaryNetworks(Time now) const {
  std::set<std::string> wary;
  for (const auto& [name, network] : networks_) {
    if (network.IsWary(now)) wary.insert(name);
  }
  return wary;
}

void ResetLimiter::Forget(const std::vector<Connection>& open, Time now) {
  std::map<int64_t, Watched> still;
  for (const Connection& connection : open) {
    if (auto node = watched_.extract(connection.id)) still.insert(std::move(node));
  }
  watched_ = std::move(still);
  std::erase_if(networks_, [now](const auto& entry) {
    return entry.second.lately.opened == 0 && !entry.second.IsWary(now);
  });
}

}  // namespace tvq
