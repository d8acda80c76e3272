// What the session store counts. Plain numbers; server/metrics exposes them.
#ifndef TVQ_SERVER_SESSIONS_RECORD_SESSION_STATS_H_
#define TVQ_SERVER_SESSIONS_RECORD_SESSION_STATS_H_

#include <cstdint>

#include "base/histogram.h"

namespace tvq {

// A session counts where its committed state lies, at the first of several places; bytes count
// wherever they are taken.
struct TierStats {
  int64_t sessions = 0;
  int64_t state_bytes = 0;  // of sessions, marks and prefixes
  int64_t budget_bytes = 0;
};

// Of states of common prompts on the durable tier.
struct StoredPrefixStats {
  int64_t prefixes = 0;
  int64_t bytes = 0;
  int64_t budget_bytes = 0;

  // Totals since start.
  int64_t hits = 0;  // prompts that began with a state that was read there
  int64_t writes = 0;
  int64_t drops = 0;      // not written: too much waited, there was no room, or the tier was away
  int64_t evictions = 0;  // removed by this server to make room
  int64_t refused = 0;    // found damaged or of something else, and removed
};

struct SessionStats {
  TierStats device;
  TierStats host;
  TierStats durable;
  int64_t leased = 0;    // sessions that a call works on
  int64_t unsaved = 0;   // sessions whose newest version is not on the durable tier
  int64_t prefixes = 0;  // states of common prompts that are kept

  // Totals since start.
  int64_t created = 0;
  int64_t deleted = 0;
  int64_t expired = 0;
  int64_t commits = 0;
  int64_t saves = 0;
  int64_t save_failures = 0;
  int64_t restores = 0;  // states brought back from host memory or the durable tier
  int64_t corrupt = 0;   // stored sessions found corrupt
  int64_t lost = 0;      // versions not saved when another server took their session over
  int64_t prefix_hits = 0;
  int64_t prefix_misses = 0;
  StoredPrefixStats stored_prefixes;
  Histogram state_restore;  // seconds until a state that was not on the device is there
  Histogram state_save;     // seconds to write a session to the durable tier
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_RECORD_SESSION_STATS_H_
