#include "server/startup/drain.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace tvq {
namespace {

// After the engine is done, readers get so long to take what was written for them.
constexpr std::chrono::seconds kReadersGrace{2};

// Sessions get at least so long: a second is nothing to a disk that syncs.
constexpr double kLeastSaveSeconds = 10;

// How often saving looks whether it is still wanted.
constexpr absl::Duration kSlice = absl::Milliseconds(500);

void FinishRequests(const Draining& draining) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(draining.seconds));
  if (!draining.engine.Drain(until)) spdlog::warn("some requests were ended with UNAVAILABLE");
  draining.server.Shutdown(std::chrono::system_clock::now() + kReadersGrace);
}

void HandOverSessions(const Draining& draining, absl::Time until, const std::atomic<bool>& now) {
  if (draining.peer.address.empty()) return;
  const auto result = HandOver(draining.sessions, draining.peer, until, now);
  if (!result.ok()) {
    spdlog::error("no session was handed over: {}", std::string(result.status().message()));
    return;
  }
  spdlog::info("{} took {} sessions; {} are left", draining.peer.address, result->taken,
               result->left);
}

void SaveSessions(SessionStore& sessions, absl::Time until, const std::atomic<bool>& now) {
  while (!now) {
    const absl::Time slice = std::min(until, absl::Now() + kSlice);
    if (sessions.Flush(slice) == 0) return;
    // Who gives up before the time has passed would not succeed in more of it.
    if (absl::Now() < slice || absl::Now() >= until) break;
  }
  for (const SessionRecord& record : sessions.Records()) {
    if (record.persisted_version >= record.version) continue;
    spdlog::warn("session {} is lost: version {} was not saved, the newest that was is {}",
                 record.id, record.version, record.persisted_version);
  }
}

}  // namespace

void Drain(const Draining& draining, const std::atomic<bool>& now) {
  draining.server.SetDraining();
  FinishRequests(draining);
  const absl::Time until =
      absl::Now() + absl::Seconds(std::max(draining.seconds, kLeastSaveSeconds));
  HandOverSessions(draining, until, now);
  SaveSessions(draining.sessions, until, now);
}

}  // namespace tvq
