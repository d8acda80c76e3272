// The sessions of a server: found by id, by owner and by the call that made them, counted, and
// moved from one state to the next.
#ifndef TVQ_SERVER_SESSIONS_STORE_SESSION_TABLE_H_
#define TVQ_SERVER_SESSIONS_STORE_SESSION_TABLE_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/sessions/placement/tiers.h"
#include "server/sessions/record/session_stats.h"
#include "server/sessions/session_store.h"
#include "server/sessions/store/content.h"
#include "server/sessions/store/context.h"
#include "server/sessions/store/entry.h"
#include "server/sessions/store/places.h"
#include "server/sessions/store/session_index.h"

namespace tvq {

// One mutex guards it and every entry, with short sections: no state is copied, and no disk or
// network waited for, while it is held. What takes long works on the immutable content of an entry
// and is put into it at its end. Locks are taken in the order SessionEntry::saving, this one, those
// of Tiers and Capacity. What is not marked otherwise locks by itself.
class SessionTable {
 public:
  SessionTable(const StoreContext& context, const Places& places, Tiers& tiers)
      : context_(context), places_(places), tiers_(tiers) {}

  mutable Mutex mutex;
  SessionIndex index ABSL_GUARDED_BY(mutex);
  // Since start; but `leased`, `unsaved` and the sessions without tokens, by place, are those of
  // now.
  SessionStats totals ABSL_GUARDED_BY(mutex);

  // The session of this id. NOT_FOUND for another owner's, too.
  absl::StatusOr<EntryPtr> Find(const std::string& owner, const std::string& id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  SessionView View(const SessionEntry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // RESOURCE_EXHAUSTED unless the owner may have so many more.
  absl::Status CheckCount(const std::string& owner, int64_t more) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // Into the table and out of it.
  void Enlist(EntryPtr entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void Drop(SessionEntry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // A call takes an entry that none has, and gives it back.
  void Take(SessionEntry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void GiveBack(SessionEntry& entry);
  // A call has made it.
  void SetMade(SessionEntry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // 0: nothing of it is on the durable tier any more.
  void SetPersisted(SessionEntry& entry, int64_t version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Exchanges the content, and returns what was there, to be let go without the lock. `holders` is
  // what that changes; `stored`: the durable tier has them.
  ContentPtr Install(SessionEntry& entry, ContentPtr next, const HolderChange& holders, bool stored)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // Ids that are dropped between the two are remembered for WasDropped.
  void WatchDrops() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { dropped_.emplace(); }
  void ForgetDrops() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { dropped_.reset(); }
  bool WasDropped(const std::string& id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return dropped_ && dropped_->contains(id);
  }

 private:
  // Adds what the totals count of an entry of the table, or takes it back with `sign` -1.
  void Count(const SessionEntry& entry, int64_t sign) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Runs `change`, which changes what they count.
  template <typename Change>
  void Recount(const SessionEntry& entry, Change change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    Count(entry, -1);
    change();
    Count(entry, 1);
  }

  const StoreContext& context_;
  const Places& places_;
  Tiers& tiers_;
  std::optional<std::set<std::string>> dropped_ ABSL_GUARDED_BY(mutex);
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_STORE_SESSION_TABLE_H_
