#include "server/rpc/limits/connections/reset_limiter.h"

#include <functional>
#include <utility>

namespace tvq {
namespace {

constexpr size_t kIpv6Bytes = 16;
constexpr size_t kIpv6NetworkBytes = 8;

// Streams that were answered or reset are taken apart a little later.
constexpr double kLiveForOpen = 1.25;

// Times what a connection may have open, for the new ones of a host.
constexpr double kLiveTogether = 2;

std::string HostName(const Address& peer) {
  return peer.ip.size() == kIpv6Bytes ? peer.ip.substr(0, kIpv6NetworkBytes) : peer.ip;
}

}  // namespace

void ResetLimiter::Lately::Leak(double per_second, Time now) {
  const double out = per_second * std::chrono::duration<double>(now - at).count();
  opened = std::max(0.0, opened - out);
  reset = std::max(0.0, reset - out);
  at = now;
}

ResetLimiter::ResetLimiter(const ConnectionLimits& limits) : limits_(limits) {}

std::vector<ResetLimiter::Verdict> ResetLimiter::Look(const std::vector<Connection>& open,
                                                      Time now) {
  for (auto& [name, host] : hosts_) {
    host.lately.Leak(kConnections * limits_.max_resets_per_second, now);
    host.open.clear();
    host.live = 0;
  }
  for (const Connection& connection : open) Count(connection, now);
  std::vector<Verdict> closed;
  for (const Connection& connection : open) JudgeAlone(&known_[connection.id], now, &closed);
  for (auto& [name, host] : hosts_) JudgeTogether(&host, now, &closed);
  for (const Verdict& verdict : closed) {
    if (Host* const host = HostOf(verdict.connection.peer)) host->closed = now;
  }
  Forget(open, now);
  return closed;
}

void ResetLimiter::Count(const Connection& connection, Time now) {
  Known& known = known_[connection.id];
  const auto opened = static_cast<double>(connection.started - known.seen.started);
  const auto reset = static_cast<double>(connection.failed - known.seen.failed);
  known.seen = connection;
  known.lately.Leak(limits_.max_resets_per_second, now);
  known.lately.opened += opened;
  known.lately.reset += reset;
  Host* host = HostOf(connection.peer);
  if (host == nullptr && opened > 0 && hosts_.size() < kMaxHosts) {
    host = &hosts_[HostName(connection.peer)];
    host->lately.at = now;
  }
  if (host == nullptr) return;
  host->live += connection.live();
  if (known.closed) return;
  host->lately.opened += opened;
  host->lately.reset += reset;
  host->open.push_back(&known);
}

void ResetLimiter::JudgeAlone(Known* known, Time now, std::vector<Verdict>* closed) {
  const double per_second = limits_.max_resets_per_second;
  const double share = ShareOf(HostOf(known->seen.peer), now);
  const auto max_streams = static_cast<double>(limits_.max_streams);
  const auto live = static_cast<double>(known->seen.live());
  if (per_second > 0 && known->churn() > share * per_second) {
    Close(known, Reason::kResets, known->churn(), closed);
  } else if (live > kLiveForOpen * max_streams ||
             (per_second > 0 && share < 1 && known->haste() > share * max_streams)) {
    Close(known, Reason::kStreams, live, closed);
  }
}

void ResetLimiter::JudgeTogether(Host* host, Time now, std::vector<Verdict>* closed) {
  const double share = ShareOf(host, now);
  const double resets = kConnections * share * limits_.max_resets_per_second;
  if (resets <= 0) return;
  CloseMost(host, Reason::kResets, &Known::churn, host->lately.churn() - resets, closed);
  double haste = 0;
  for (const Known* known : host->open) haste += known->closed ? 0 : known->haste();
  CloseMost(host, Reason::kStreams, &Known::haste,
            haste - kLiveTogether * share * static_cast<double>(limits_.max_streams), closed);
}

// Those with the most of it, until it is less by `above`.
void ResetLimiter::CloseMost(Host* host, Reason reason, double (Known::*count)() const,
                             double above, std::vector<Verdict>* closed) {
  if (above <= 0) return;
  std::ranges::sort(host->open, std::greater(),
                    [count](Known* known) { return (known->*count)(); });
  for (Known* const known : host->open) {
    const double part = (known->*count)();
    if (above <= 0 || part <= 0) return;
    if (known->closed) continue;
    above -= part;
    Close(known, reason, part, closed);
  }
}

void ResetLimiter::Close(Known* known, Reason reason, double count, std::vector<Verdict>* closed) {
  if (known->closed) return;
  known->closed = true;
  closed->push_back({known->seen, reason, static_cast<int64_t>(count)});
}

// Null if it is not remembered.
ResetLimiter::Host* ResetLimiter::HostOf(const Address& peer) {
  const auto found = hosts_.find(HostName(peer));
  return found == hosts_.end() ? nullptr : &found->second;
}

// Of all limits, that it may come up to at once.
double ResetLimiter::ShareOf(const Host* host, Time now) const {
  if (host == nullptr || !host->IsWary(now)) return 1;
  constexpr double kShare = 1.0 / kLess;
  const double most = kLiveTogether * kShare * static_cast<double>(limits_.max_streams);
  return static_cast<double>(host->live) > most ? kShare * kShare : kShare;
}

void ResetLimiter::Forget(const std::vector<Connection>& open, Time now) {
  std::map<int64_t, Known> still;
  for (const Connection& connection : open) {
    if (auto node = known_.extract(connection.id)) still.insert(std::move(node));
  }
  known_ = std::move(still);
  std::erase_if(hosts_, [now](const auto& entry) {
    return entry.second.lately.opened == 0 && !entry.second.IsWary(now);
  });
}

}  // namespace tvq
