// One writer at a time: which call may change a session of this server.
#ifndef TVQ_SERVER_SESSIONS_STORE_LEASES_H_
#define TVQ_SERVER_SESSIONS_STORE_LEASES_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/sessions/record/replies.h"
#include "server/sessions/session_store.h"
#include "server/sessions/snapshot/checkpoint.h"
#include "server/sessions/store/claims.h"
#include "server/sessions/store/context.h"
#include "server/sessions/store/entry.h"
#include "server/sessions/store/loader.h"
#include "server/sessions/store/saver.h"
#include "server/sessions/store/session_table.h"

namespace tvq {

// An entry that a call has taken (SessionTable::Take), given back by the destructor.
class EntryLease {
 public:
  EntryLease(SessionTable& table, EntryPtr entry) : table_(&table), entry_(std::move(entry)) {}
  EntryLease(EntryLease&&) = default;
  ~EntryLease() {
    if (entry_ != nullptr) table_->GiveBack(*entry_);
  }
  SessionEntry& entry() const { return *entry_; }

 private:
  SessionTable* table_;
  EntryPtr entry_;
};

// A call that may change a session, or has done so already.
struct Begun {
  EntryPtr entry;
  std::optional<EntryLease> lease;                   // unset: there is a reply
  std::optional<std::string> reply;                  // of an earlier call with the same key
  std::shared_ptr<const CheckpointHead> state_head;  // null without a state
};

// Thread-safe.
class Leases {
 public:
  Leases(const StoreContext& context, SessionTable& table, Loader& loader, Claims& claims,
         Saver& saver)
      : context_(context), table_(table), loader_(loader), claims_(claims), saver_(saver) {}

  // Finds the session, claims, leases and loads it. `kind` is part of what a call with an
  // idempotency key asks. A retry is answered even if the session is busy. Blocks.
  absl::StatusOr<Begun> Begin(const SessionCall& call, CallKind kind);

 private:
  // Leaves neither a reply nor a lease if the session is not this server's, or not any more.
  absl::Status Lock(const SessionCall& call, CallKind kind, Begun& begun);
  // Loads what the leased session lacks, and looks whether the call is to be done.
  absl::Status Look(const SessionCall& call, CallKind kind, Begun& begun);

  const StoreContext& context_;
  SessionTable& table_;
  Loader& loader_;
  Claims& claims_;
  Saver& saver_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_STORE_LEASES_H_
