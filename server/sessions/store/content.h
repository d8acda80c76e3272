// What a session is at one version: plain data, never changed once it is committed.
#ifndef TVQ_SERVER_SESSIONS_STORE_CONTENT_H_
#define TVQ_SERVER_SESSIONS_STORE_CONTENT_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/sessions/placement/capacity.h"
#include "server/sessions/record/replies.h"
#include "server/sessions/record/session_record.h"
#include "server/sessions/record/token_log.h"
#include "server/sessions/snapshot/checkpoint.h"
#include "server/sessions/snapshot/holders.h"

namespace tvq {

// A state and what belongs to it. Copies share the state.
struct Version {
  std::shared_ptr<Checkpoint> checkpoint;  // null without tokens
  TokenLog tokens;                         // empty if no transcript is kept
  std::shared_ptr<Capacity::Place> place;  // what the state takes of host memory and durable tier
  bool loaded = true;                      // false: `tokens` is on the durable tier
};

struct KeptMark {
  MarkRecord record;
  Version kept;
};

// All that a session consists of. Readers need no lock while they use it.
struct SessionContent {
  // Without marks, persisted_version and last_used, which SessionEntry and `marks` know better.
  SessionRecord record;
  std::optional<size_t> model;  // index among the engine's models; unset: not served here
  Version present;
  std::vector<KeptMark> marks;  // oldest first
  Replies replies;              // to be loaded with `present`

  // Null if there is none of this name.
  const KeptMark* FindMark(const std::string& name) const;
};
using ContentPtr = std::shared_ptr<const SessionContent>;

// A holder of a checkpoint (Tiers::AddHolder): the checkpoint, and what of the content is at it.
using Holder = std::pair<std::shared_ptr<Checkpoint>, StoredPlace>;
// All of a content. None twice.
std::vector<Holder> HoldersOf(const SessionContent& content);

// What the step from a content to the next does to them.
struct HolderChange {
  std::vector<Holder> after;    // all of the next
  std::vector<Holder> added;    // those of them that are new
  std::vector<Holder> dropped;  // those that the next has not any more
};
HolderChange ChangeOfHolders(const SessionContent& before, const SessionContent& after);

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_STORE_CONTENT_H_
