// One session as the store knows it.
#ifndef TVQ_SERVER_SESSIONS_STORE_SESSION_H_
#define TVQ_SERVER_SESSIONS_STORE_SESSION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/sessions/placement/capacity.h"
#include "server/sessions/record/replies.h"
#include "server/sessions/record/session_record.h"
#include "server/sessions/record/token_log.h"
#include "server/sessions/snapshot/checkpoint.h"
#include "server/sessions/snapshot/holders.h"

namespace tvq {

// A state and what belongs to it. Copies share the state.
struct Moment {
  std::shared_ptr<Checkpoint> checkpoint;  // null without tokens
  TokenLog tokens;                         // empty if no transcript is kept
  std::shared_ptr<Capacity::Place> place;  // what the state takes of host memory and durable tier
  bool loaded = true;                      // false: `tokens` is on the durable tier
};

struct KeptMark {
  MarkRecord record;
  Moment moment;
};

// All that a version of a session consists of. Never changed once it is committed, so that readers
// need no lock while they use it.
struct SessionContent {
  // Without marks, persisted_version and last_used, which SessionEntry and `marks` know better.
  SessionRecord record;
  std::optional<size_t> model;  // index among the engine's models; unset: not served here
  Moment present;
  std::vector<KeptMark> marks;  // oldest first
  Replies replies;              // to be loaded with `present`

  // Null if there is none of this name.
  const KeptMark* FindMark(const std::string& name) const;
};

// A checkpoint that a content is at, and what it is on the durable tier.
using HeldPlace = std::pair<std::shared_ptr<Checkpoint>, StoredPlace>;
// All of a content. None twice.
std::vector<HeldPlace> HoldsOf(const SessionContent& content);

// What the step from a content to the next does to them.
struct HoldsChange {
  std::vector<HeldPlace> after;    // all of the next
  std::vector<HeldPlace> added;    // those of them that are new
  std::vector<HeldPlace> dropped;  // those that the next has not any more
};
HoldsChange ChangeOfHolds(const SessionContent& before, const SessionContent& after);

// Guarded by the store's mutex, but for `saving`.
struct SessionEntry {
  std::shared_ptr<const SessionContent> content;
  int64_t persisted_version = 0;
  absl::Time last_used;
  absl::Time stored_use = absl::InfinitePast();  // the last use, as the durable tier knows it
  // What the next call is to be told once, ABORTED: a version was lost.
  std::string lost;
  bool claimed = true;   // false: other servers may write it too; what is known here may be old
  bool leased = false;   // a call works on it
  bool making = false;   // the call that makes it has not succeeded yet
  bool deleted = false;  // it left the table while a call held the entry

  // Held while the session is written to the durable tier or removed from there; not under the
  // store's mutex.
  Mutex saving;
  std::atomic<bool> may_be_stored = false;  // the durable tier was asked to keep it

  SessionRecord Record() const;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_STORE_SESSION_H_
