// How a call makes the next version of a session.
#ifndef TVQ_SERVER_SESSIONS_STORE_COMMITS_H_
#define TVQ_SERVER_SESSIONS_STORE_COMMITS_H_

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/sessions/placement/tiers.h"
#include "server/sessions/record/replies.h"
#include "server/sessions/session_store.h"
#include "server/sessions/store/content.h"
#include "server/sessions/store/context.h"
#include "server/sessions/store/leases.h"
#include "server/sessions/store/places.h"
#include "server/sessions/store/saver.h"
#include "server/sessions/store/session_table.h"

namespace tvq {

// Thread-safe.
class Commits {
 public:
  Commits(const StoreContext& context, Places& places, Tiers& tiers, SessionTable& table,
          Saver& saver)
      : context_(context), places_(places), tiers_(tiers), table_(table), saver_(saver) {}

  // Makes `next` the content of the leased session: version + 1. Its place is resized; with `frees`
  // even if there is no room, because the commit gives up more in return. Blocks.
  absl::StatusOr<SessionView> Commit(const EntryLease& lease, SessionContent next,
                                     Durability durability, bool frees = false);

  // The answer of a call that Begin has found to be done already.
  absl::StatusOr<SessionView> Replayed(const Begun& begun) const;

  // Commits what changes a session by pointers alone, or replays it.
  using Edit = std::function<absl::Status(SessionContent& next)>;
  absl::StatusOr<SessionView> Change(const SessionCall& call, CallKind kind,
                                     absl::StatusOr<Begun> begun, const Edit& edit);

  // Makes sure that the checkpoints of new holders are on the device or in host memory, and keeps
  // them there. Blocks.
  absl::StatusOr<std::vector<Tiers::Pin>> Anchor(const std::vector<Holder>& added);

 private:
  const StoreContext& context_;
  Places& places_;
  Tiers& tiers_;
  SessionTable& table_;
  Saver& saver_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_STORE_COMMITS_H_
