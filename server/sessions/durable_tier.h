// Where sessions outlive the process.
#ifndef TVQ_SERVER_SESSIONS_DURABLE_TIER_H_
#define TVQ_SERVER_SESSIONS_DURABLE_TIER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/sessions/byte_stream.h"
#include "server/sessions/session_record.h"

namespace tvq {

// Snapshots by session and version. Thread-safe; every call may block on disk or network.
class DurableTier {
 public:
  struct Usage {
    int64_t sessions = 0;
    int64_t bytes = 0;
    int64_t budget = 0;   // 0: none
    int64_t corrupt = 0;  // found corrupt, set aside, not loaded
  };

  virtual ~DurableTier() = default;

  // The newest record of every stored session, also where the state of that version is damaged: the
  // record's `damage` says so then.
  virtual absl::Status ForEach(const std::function<void(SessionRecord record)>& visit) = 0;

  // The newest record of one session. NOT_FOUND.
  virtual absl::StatusOr<SessionRecord> Find(const std::string& id) = 0;

  // Stores the state of `version`, which is the record's own or that of one of its marks; durable
  // on return. `write` streams a snapshot of exactly `bytes` bytes with `record` in it. Versions
  // that the record with the newest version does not name any more are dropped. ABORTED if a later
  // version is stored or another server claimed the session; RESOURCE_EXHAUSTED for a full budget
  // or disk. After an error what was stored before is as it was.
  virtual absl::Status Put(const SessionRecord& record, int64_t version, int64_t bytes,
                           const std::function<absl::Status(const ByteSink&)>& write) = 0;

  // NOT_FOUND; DATA_LOSS for what was set aside as corrupt.
  virtual absl::StatusOr<std::unique_ptr<ByteSource>> Get(const std::string& id,
                                                          int64_t version) = 0;

  // All versions. OK if there is none.
  virtual absl::Status Delete(const std::string& id) = 0;

  // Whether other servers may write here.
  virtual bool shared() const = 0;

  // From now on this server writes the session, and Put of whoever did before is refused. Where
  // nobody else writes, nothing has to be done.
  virtual absl::Status Claim(const std::string& id) = 0;
  // Whether the claim still holds.
  virtual absl::StatusOr<bool> Owned(const std::string& id) = 0;

  virtual Usage usage() const = 0;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_DURABLE_TIER_H_
