// Writes sessions to the durable tier, and removes them there: when a call asks for it, host memory
// is full, or the server leaves.
#ifndef TVQ_SERVER_SESSIONS_STORE_SAVER_H_
#define TVQ_SERVER_SESSIONS_STORE_SAVER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/sessions/placement/tiers.h"
#include "server/sessions/record/replies.h"
#include "server/sessions/record/session_record.h"
#include "server/sessions/session_store.h"
#include "server/sessions/snapshot/snapshot.h"
#include "server/sessions/store/claims.h"
#include "server/sessions/store/content.h"
#include "server/sessions/store/context.h"
#include "server/sessions/store/entry.h"
#include "server/sessions/store/loader.h"
#include "server/sessions/store/session_table.h"

namespace tvq {

// The head of a snapshot of the version with this number.
SnapshotHead HeadOfSnapshot(const SessionRecord& record, int64_t number, const Version& version,
                            const Replies& replies, int64_t state_bytes);

// Thread-safe; every call blocks.
class Saver {
 public:
  Saver(const StoreContext& context, Tiers& tiers, SessionTable& table, Loader& loader,
        Claims& claims)
      : context_(context), tiers_(tiers), table_(table), loader_(loader), claims_(claims) {}

  // Everything of a content that is not stored yet; `record` is its record.
  absl::Status Put(const SessionContent& content, SessionRecord record);
  // The newest version of the session, if it is not stored yet.
  absl::Status Save(SessionEntry& entry);
  absl::Status Save(const std::string& id);
  // Of one that a call has leased. ABORTED if another server has the session.
  absl::Status SaveLeased(SessionEntry& entry);
  // Those that a call has made, if `durability` wants it, several at once.
  absl::Status SaveMade(const std::vector<EntryPtr>& entries, Durability durability);
  // Some of those that SaveMade could not store, because a shared tier was away.
  void SaveOwed();
  // See SessionStore::Flush.
  int64_t Flush(SteadyTime until);

  // Tells the durable tier of the session's last use.
  absl::Status SaveUse(SessionEntry& entry, absl::Time used);
  // Deletes it in the durable tier, then in the table. The table keeps it if the tier fails.
  absl::Status Remove(SessionEntry& entry);

 private:
  absl::Status PutVersion(const SessionRecord& record, int64_t number, const Version& version,
                          const Replies& replies, size_t model);

  const StoreContext& context_;
  Tiers& tiers_;
  SessionTable& table_;
  Loader& loader_;
  Claims& claims_;
  // Made while a shared tier was away, and to be stored there.
  std::deque<EntryPtr> owed_ ABSL_GUARDED_BY(table_.mutex);
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_STORE_SAVER_H_
