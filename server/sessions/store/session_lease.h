// The lease of a call that computes on a session.
#ifndef TVQ_SERVER_SESSIONS_STORE_SESSION_LEASE_H_
#define TVQ_SERVER_SESSIONS_STORE_SESSION_LEASE_H_

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/sessions/placement/tiers.h"
#include "server/sessions/record/session_record.h"
#include "server/sessions/record/token_log.h"
#include "server/sessions/session_store.h"
#include "server/sessions/snapshot/checkpoint.h"
#include "server/sessions/store/commits.h"
#include "server/sessions/store/context.h"
#include "server/sessions/store/leases.h"
#include "server/sessions/store/loader.h"
#include "server/sessions/store/places.h"

namespace tvq {

class SessionLease final : public Lease {
 public:
  struct Parts {
    const StoreContext& context;
    const Places& places;
    Tiers& tiers;
    Loader& loader;
    Commits& commits;
  };
  SessionLease(const Parts& parts, SessionCall call, Begun begun, SessionRecord record);
  ~SessionLease() override;

  const SessionRecord& record() const override { return record_; }
  const std::optional<std::string>& replay() const override { return begun_.reply; }
  std::optional<StartPoint> Start() override;
  absl::StatusOr<std::vector<int32_t>> Transcript() const override;
  absl::StatusOr<int64_t> GoBack(std::span<const int32_t> tokens) override;
  absl::Status Reserve(int64_t position) override;
  absl::StatusOr<SessionView> Commit(Continuation next, std::string reply) override;

 private:
  // A place in the session's past where the call goes on.
  struct Past {
    std::shared_ptr<Checkpoint> checkpoint;  // null at position 0
    CheckpointHead head;
    TokenLog tokens;
    std::optional<AnswerEnd> answer_end;

    int64_t position() const { return head.position + std::ssize(head.pending); }
  };
  // See Lease::GoBack.
  absl::StatusOr<Past> LastPlace(std::span<const int32_t> tokens) const;
  const SessionContent& content() const { return *begun_.entry->content; }  // the lease keeps it

  const Parts parts_;
  const SessionCall call_;
  Begun begun_;
  SessionRecord record_;
  std::optional<Past> past_;  // unset: the call goes on from now
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_STORE_SESSION_LEASE_H_
