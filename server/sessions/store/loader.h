// Sessions from the durable tier: found there at start, read when they are used, and forgotten
// again where only the tier has their state.
#ifndef TVQ_SERVER_SESSIONS_STORE_LOADER_H_
#define TVQ_SERVER_SESSIONS_STORE_LOADER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "server/sessions/placement/tiers.h"
#include "server/sessions/record/replies.h"
#include "server/sessions/record/session_record.h"
#include "server/sessions/store/content.h"
#include "server/sessions/store/context.h"
#include "server/sessions/store/entry.h"
#include "server/sessions/store/places.h"
#include "server/sessions/store/session_table.h"

namespace tvq {

// Thread-safe.
class Loader {
 public:
  Loader(const StoreContext& context, Places& places, Tiers& tiers, SessionTable& table)
      : context_(context), places_(places), tiers_(tiers), table_(table) {}

  // Enlists all that is stored.
  absl::Status LoadStored();
  // An entry of what is stored, not in the table: kIdle, or kForeign.
  EntryPtr FromRecord(SessionRecord record, EntryState state);

  // Reads what is missing of a version that is stored as number `number` of the session, and of
  // the checkpoint what Tiers::Start needs, if `state_head` is not null. DATA_LOSS for what is
  // damaged or not stored any more. Blocks.
  absl::Status Load(const SessionContent& content, int64_t number, Version& version,
                    Replies* replies, std::shared_ptr<const CheckpointHead>* state_head = nullptr);
  // The same for the present version of an entry that a call has.
  absl::Status LoadPresent(SessionEntry& entry, std::shared_ptr<const CheckpointHead>& state_head);

  // Forgets transcripts and replies where only the durable tier has the state, too; returns of how
  // many sessions.
  int64_t UnloadParked();

 private:
  int64_t Unload(std::span<std::string> ids);

  const StoreContext& context_;
  Places& places_;
  Tiers& tiers_;
  SessionTable& table_;
  std::vector<std::string> parked_ ABSL_GUARDED_BY(table_.mutex);  // ids for UnloadParked to see
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_STORE_LOADER_H_
