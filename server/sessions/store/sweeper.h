// Ends sessions whose time is over, and tells other servers which ones are used.
#ifndef TVQ_SERVER_SESSIONS_STORE_SWEEPER_H_
#define TVQ_SERVER_SESSIONS_STORE_SWEEPER_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/sessions/store/claims.h"
#include "server/sessions/store/context.h"
#include "server/sessions/store/entry.h"
#include "server/sessions/store/saver.h"
#include "server/sessions/store/session_index.h"
#include "server/sessions/store/session_table.h"

namespace tvq {

// Both calls are for once a second, look at a limited number of sessions, and block. Thread-safe.
class Sweeper {
 public:
  Sweeper(const StoreContext& context, SessionTable& table, Claims& claims, Saver& saver)
      : context_(context), table_(table), claims_(claims), saver_(saver) {}

  // Deletes sessions whose time-to-live is over; returns how many.
  int64_t DeleteExpired();
  // Tells a shared tier of uses, so that no other server ends what is used here.
  void SaveUses();

 private:
  // Ends a session whose time is over as far as is known here; false if it was used elsewhere.
  absl::StatusOr<bool> Expire(const EntryPtr& entry, absl::Time now);
  absl::StatusOr<bool> ExpireForeign(SessionEntry& entry, absl::Time now);

  const StoreContext& context_;
  SessionTable& table_;
  Claims& claims_;
  Saver& saver_;
  SessionIndex::End swept_ ABSL_GUARDED_BY(table_.mutex);  // the last that was looked at
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_STORE_SWEEPER_H_
