#include "server/startup/drain.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/host_port.h"
#include "base/quoted.h"

namespace tvq {
namespace {

using SteadyClock = std::chrono::steady_clock;

// After all is done, readers get so long to take what was written for them; also the answers of
// requests that a second signal has ended.
constexpr std::chrono::seconds kReadersGrace{2};

// Sessions get at least so long: a second is nothing to a disk that syncs.
constexpr std::chrono::seconds kLeastSaveTime{10};

// How often saving looks whether it is still wanted.
constexpr std::chrono::milliseconds kSlice{500};

void FinishRequests(const Draining& draining, const std::stop_token& now) {
  const auto until = SteadyClock::now() + draining.timeout;
  if (!draining.engine.Drain(until)) spdlog::warn("some requests were ended with UNAVAILABLE");
  draining.server.FinishCalls(until, now);
  draining.server.Shutdown(SteadyClock::now() + kReadersGrace);
}

void HandOverSessions(const Draining& draining, SteadyTime until, const std::stop_token& now) {
  const auto result = HandOver(draining.sessions, draining.peer, until, now);
  if (!result.ok()) {
    spdlog::error("no session was handed over: {}", std::string(result.status().message()));
    return;
  }
  spdlog::info("{} took {} sessions; {} are left", draining.peer.address, result->taken,
               result->left);
}

void SaveSessions(SessionStore& sessions, SteadyTime until, const std::stop_token& now) {
  while (!now.stop_requested()) {
    const SteadyTime slice = std::min<SteadyTime>(until, SteadyClock::now() + kSlice);
    if (sessions.Flush(slice) == 0) return;
    // Who gives up before the time has passed would not succeed in more of it.
    if (SteadyClock::now() < slice || SteadyClock::now() >= until) return;
  }
}

// Other servers have the sessions, too: they get them, and whoever calls, before anybody waits.
void SendElsewhere(const Draining& draining, const std::stop_token& now) {
  draining.sessions.Leave();
  SaveSessions(draining.sessions, SteadyClock::now() + draining.timeout / 2, now);
  draining.server.StopListening();
  // What was about to be committed when it left.
  SaveSessions(draining.sessions, SteadyClock::now() + kSlice, now);
}

void NameLost(const SessionStore& sessions) {
  for (const SessionRecord& record : sessions.Records()) {
    if (record.persisted_version >= record.version) continue;
    spdlog::warn("session {} is lost: version {} was not saved, the newest that was is {}",
                 record.id, record.version, record.persisted_version);
  }
}

}  // namespace

PeerOptions PeerOf(const Flags& flags) {
  return {.address = flags.sessions.drain_peer,
          .key = flags.sessions.drain_peer_key,
          .tls = flags.server.tls};
}

absl::Status CheckOrder(const DrainOrder& order, const Flags& flags) {
  const std::string& peer = flags.sessions.drain_peer;
  const auto ordered = ParseServerAddress(order.peer, ServerOptions().port);
  const bool is_same = ordered.ok() && ordered->address == peer;
  if (order.peer.empty() || is_same) return absl::OkStatus();
  if (peer.empty()) {
    return absl::InvalidArgumentError(
        "peer: must be empty, the server was started without --drain-peer");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("peer: is ", Quoted(order.peer), ", must be empty or --drain-peer's, ", peer));
}

void Drain(const Draining& draining, const std::stop_token& now) {
  if (draining.sessions.shares_storage()) SendElsewhere(draining, now);
  draining.server.SetDraining();
  FinishRequests(draining, now);
  const SteadyTime begin = SteadyClock::now();
  const auto time = std::max<std::chrono::nanoseconds>(draining.timeout, kLeastSaveTime);
  if (!draining.peer.address.empty()) {
    // What a shared tier takes is the peer's to find there, or any other server's.
    if (draining.sessions.shares_storage()) {
      SaveSessions(draining.sessions, begin + time / 2, now);
    }
    // Half of the time is for what the peer does not take, if it can be stored and is not already.
    const bool stores_rest = draining.stores && !draining.sessions.shares_storage();
    HandOverSessions(draining, begin + (stores_rest ? time / 2 : time), now);
  }
  SaveSessions(draining.sessions, begin + time, now);
  NameLost(draining.sessions);
}

}  // namespace tvq
