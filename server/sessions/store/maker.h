// Makes sessions: of nothing, and of what forks and imports bring.
#ifndef TVQ_SERVER_SESSIONS_STORE_MAKER_H_
#define TVQ_SERVER_SESSIONS_STORE_MAKER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/sessions/record/session_record.h"
#include "server/sessions/session_store.h"
#include "server/sessions/store/commits.h"
#include "server/sessions/store/content.h"
#include "server/sessions/store/context.h"
#include "server/sessions/store/entry.h"
#include "server/sessions/store/neighbours.h"
#include "server/sessions/store/places.h"
#include "server/sessions/store/saver.h"
#include "server/sessions/store/session_table.h"

namespace tvq {

// Thread-safe; every call may block.
class Maker {
 public:
  Maker(const StoreContext& context, Places& places, Tiers& tiers, SessionTable& table,
        Saver& saver, Neighbours& neighbours, Commits& commits)
      : context_(context),
        places_(places),
        tiers_(tiers),
        table_(table),
        saver_(saver),
        neighbours_(neighbours),
        commits_(commits) {}

  absl::StatusOr<SessionView> Create(const std::string& owner, const CreateOptions& options);

  // A version that shares the state of `like`, with a place of its own, for the owner of `content`,
  // whose present version or mark it is to be.
  absl::StatusOr<Version> NewVersion(const SessionContent& content, const Version& like,
                                     int64_t position);

  // For a retry: what the call with the record's creation_key has made, as SessionIndex::CreatedBy
  // finds it, and stored if `durability` wants that. ABORTED while that call is under way,
  // INVALID_ARGUMENT if it asked something else.
  absl::StatusOr<std::vector<SessionView>> Made(const SessionRecord& wanted, Durability durability);

  static EntryPtr NewEntry(SessionContent content);  // kMaking
  // Puts new entries into the table; all or none. ABORTED unless there are `made` others of the
  // same call.
  absl::Status Enter(const std::vector<EntryPtr>& entries, size_t made);
  // Stores them, as `durability` wants it, and ends their making; all or none.
  absl::StatusOr<std::vector<SessionView>> Finish(const std::vector<EntryPtr>& entries,
                                                  Durability durability);
  // All of it, of the one session that a call makes.
  absl::StatusOr<SessionView> Make(SessionContent content, Durability durability);

 private:
  const StoreContext& context_;
  Places& places_;
  Tiers& tiers_;
  SessionTable& table_;
  Saver& saver_;
  Neighbours& neighbours_;
  Commits& commits_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_STORE_MAKER_H_
