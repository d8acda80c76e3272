// What other servers of a shared durable tier have stored, made and deleted.
#ifndef TVQ_SERVER_SESSIONS_STORE_NEIGHBOURS_H_
#define TVQ_SERVER_SESSIONS_STORE_NEIGHBOURS_H_

#include <chrono>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "server/sessions/record/session_record.h"
#include "server/sessions/store/claims.h"
#include "server/sessions/store/context.h"
#include "server/sessions/store/loader.h"
#include "server/sessions/store/session_table.h"

namespace tvq {

// Does nothing where the tier is not shared. While the tier is away, what is known stays.
// Thread-safe; every call blocks.
class Neighbours {
 public:
  Neighbours(const StoreContext& context, SessionTable& table, Loader& loader, Claims& claims)
      : context_(context), table_(table), loader_(loader), claims_(claims) {}

  // Learns what is stored of all sessions, unless that is being done, or was done just now.
  absl::Status LearnStored();
  // Learns of the stored sessions that a call with the record's creation_key made elsewhere.
  absl::Status FindMade(const SessionRecord& wanted);
  // Sees whether the durable tier has lost its data.
  void CheckInstance();

 private:
  // What is stored of the session now; nothing: no record was found.
  void Learn(const std::string& id, std::optional<SessionRecord> record);

  const StoreContext& context_;
  SessionTable& table_;
  Loader& loader_;
  Claims& claims_;
  bool learning_ ABSL_GUARDED_BY(table_.mutex) = false;  // LearnStored is at it
  std::chrono::steady_clock::time_point learn_again_ ABSL_GUARDED_BY(table_.mutex);
  std::string instance_ ABSL_GUARDED_BY(table_.mutex);  // of the tier; empty: not asked yet
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_STORE_NEIGHBOURS_H_
