// Where sessions outlive the process.
#ifndef TVQ_SERVER_SESSIONS_DURABLE_DURABLE_TIER_H_
#define TVQ_SERVER_SESSIONS_DURABLE_DURABLE_TIER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/sessions/record/session_record.h"
#include "server/sessions/snapshot/byte_stream.h"

namespace tvq {

// Snapshots by session and version. Thread-safe; every call may block on disk or network.
class DurableTier {
 public:
  struct Usage {
    int64_t sessions = 0;
    int64_t bytes = 0;
    int64_t budget = 0;           // 0: none
    std::optional<int64_t> free;  // beside `bytes` when the server began; nothing: not known
    int64_t corrupt = 0;          // found corrupt and not loaded, since the server began
  };

  virtual ~DurableTier() = default;

  // The newest record of every stored session, also where the state of that version is damaged: the
  // record's `damage` says so then.
  virtual absl::Status ForEach(const std::function<void(SessionRecord record)>& visit) = 0;

  // The newest record of one session. NOT_FOUND.
  virtual absl::StatusOr<SessionRecord> Find(const std::string& id) = 0;

  // Stores the state of `version`, the record's own or that of a mark; durable on return. `write`
  // streams a snapshot of exactly `bytes` bytes with `record` in it, for a mark's version without
  // the other marks. Versions that the newest record no longer names are dropped. ABORTED if a
  // later version is stored or another server claimed the session; RESOURCE_EXHAUSTED for a full
  // budget or disk. After an error, what was stored before is unchanged.
  virtual absl::Status Put(const SessionRecord& record, int64_t version, int64_t bytes,
                           const std::function<absl::Status(const ByteSink&)>& write) = 0;

  // NOT_FOUND; DATA_LOSS for what was set aside as corrupt.
  virtual absl::StatusOr<std::unique_ptr<ByteSource>> Get(const std::string& id,
                                                          int64_t version) = 0;

  // All versions. OK if there is none; ABORTED, and nothing is deleted, if another server claimed
  // the session.
  virtual absl::Status Delete(const std::string& id) = 0;

  // Makes `last_used` the time of the last use in the session's record, unless a later one is
  // stored. NOT_FOUND without a record; ABORTED if another server claimed the session.
  virtual absl::Status Touch(const std::string& id, absl::Time last_used) = 0;

  // Whether other servers may write here.
  virtual bool shared() const = 0;

  // The rest is for tiers that are shared; others do as if no other server wrote there.

  // From now on this server writes the session, and writes by earlier owners are refused. `now` is
  // a use of the session. Returns the newest record. Without a record: NOT_FOUND, no claim.
  virtual absl::StatusOr<SessionRecord> Claim(const std::string& id, absl::Time now);

  // How a session that this server claimed, or was the first to store, stands.
  struct Standing {
    bool owned = true;    // no other server claimed or deleted it since
    int64_t version = 0;  // of the newest record; 0: there is none
  };
  virtual absl::StatusOr<Standing> Look(const std::string& id);

  // This server does not know the session any more, and does not claim it at the moment: what the
  // tier remembers of an earlier claim is forgotten. Asks no other server.
  virtual void ForgetClaim(const std::string& /*id*/) {}

  // Deletes a session that was not used after `since`, whichever server claimed it, in one step.
  // False if it was used, or there is no record.
  virtual absl::StatusOr<bool> DeleteUnused(const std::string& id, absl::Time since);

  // Ids of stored sessions that a call with the creation_key of `like` made, for the same owner and
  // from the same parent. In no order.
  virtual absl::StatusOr<std::vector<std::string>> CreatedBy(const SessionRecord& /*like*/) {
    return std::vector<std::string>();
  }

  // A name of the storage. Another name than before: what had been stored is lost.
  virtual absl::StatusOr<std::string> Instance() { return std::string(); }

  virtual Usage usage() const = 0;

  // Bytes that a tier may take for which none were said: those that it has, and kPartOfFree of what
  // is free beside them; at least 1.
  static constexpr double kPartOfFree = 0.9;
  static int64_t BudgetWithin(int64_t bytes, int64_t free);
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_DURABLE_DURABLE_TIER_H_
