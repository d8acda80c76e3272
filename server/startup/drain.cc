#include "server/startup/drain.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

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

void SaveSessions(SessionStore& sessions, SteadyTime until, const std::stop_token& now) {
  while (!now.stop_requested()) {
    const SteadyTime slice = std::min<SteadyTime>(until, SteadyClock::now() + kSlice);
    if (sessions.Flush(slice) == 0) return;
    // If Flush gives up before the time has passed, more time would not help.
    if (SteadyClock::now() < slice || SteadyClock::now() >= until) return;
  }
}

// Other servers share the sessions: they get sessions and clients first, so that nobody waits.
void SendElsewhere(const Draining& draining, const std::stop_token& now) {
  draining.sessions.Leave();
  SaveSessions(draining.sessions, SteadyClock::now() + draining.timeout / 2, now);
  draining.server.StopListening();
  // What was about to be committed when it left.
  SaveSessions(draining.sessions, SteadyClock::now() + kSlice, now);
}

// They can still be exported while requests finish.
void WarnOfLoss(int64_t sessions) {
  if (sessions == 0) return;
  spdlog::warn("sessions will be lost: {}, for there is neither --session-dir nor --redis",
               sessions);
}

void NameLost(const SessionStore& sessions) {
  for (const SessionRecord& record : sessions.Records()) {
    if (record.persisted_version >= record.version) continue;
    spdlog::warn("session {} is lost: version {} was not saved, the newest that was is {}",
                 record.id, record.version, record.persisted_version);
  }
}

}  // namespace

void Drain(const Draining& draining, const std::stop_token& now) {
  if (!draining.stores) WarnOfLoss(draining.sessions.stats().unsaved);
  if (draining.sessions.shares_storage()) SendElsewhere(draining, now);
  draining.server.SetDraining();
  FinishRequests(draining, now);
  const auto time = std::max<std::chrono::nanoseconds>(draining.timeout, kLeastSaveTime);
  SaveSessions(draining.sessions, SteadyClock::now() + time, now);
  NameLost(draining.sessions);
}

}  // namespace tvq
