#ifndef TVQ_SERVER_RPC_CALLS_SESSION_USE_H_
#define TVQ_SERVER_RPC_CALLS_SESSION_USE_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/runtime/text/conversation_writer.h"
#include "server/engine/request/request.h"
#include "server/sessions/session_store.h"
#include "tvq/v1/session.pb.h"

namespace tvq {

// Parses the answer that was kept for a call that is retried now. DATA_LOSS if it is damaged.
absl::Status ParseReply(const std::string& reply, google::protobuf::Message* message);

// What a conversation adds to a session.
struct ConversationTurn {
  std::vector<int32_t> ids;  // to be fed
  int64_t reread = 0;        // of them, those that stand where the session had tokens before
};

// A call's use of a session: the lease, the request that continues it, the commit. One thread at a
// time.
class SessionUse {
 public:
  // Blocks. Errors of SessionStore::Acquire.
  static absl::StatusOr<std::unique_ptr<SessionUse>> Open(SessionStore* store,
                                                          const SessionCall& call,
                                                          bool commit_on_cancel);

  const SessionRecord& record() const { return lease_->record(); }

  // True if a retry will want the reply.
  bool keeps_reply() const { return !call_.idempotency_key.empty(); }

  // What an earlier call with this idempotency key was answered; unset: the call is to be done.
  // FAILED_PRECONDITION, with the position, if the reply was too large to be kept, DATA_LOSS if it
  // was not kept well.
  absl::StatusOr<std::optional<std::string>> Replay() const;

  // What to feed so that the session holds the whole conversation and nothing else. If what it
  // holds is not the beginning of the conversation, the call goes on from an earlier place of the
  // session. Blocks. FAILED_PRECONDITION without a transcript.
  absl::StatusOr<ConversationTurn> GoOn(const ConversationWriter& writer, Conversation whole);

  // Makes the request begin where the session is, and leave what comes after it. Errors of
  // Lease::Reserve.
  absl::Status Continue(Request* request);

  // From the sink's OnKept.
  void Keep(Continuation end) { end_ = std::move(end); }

  // What became of the call. Cancelled is what its client stopped; a deadline, a reader that
  // stalls, a shutdown and an error are failures.
  enum class Outcome { kDone, kCancelled, kFailed };
  // Whether there is something to commit.
  bool HasEnd(Outcome outcome) const {
    if (outcome == Outcome::kCancelled) return end_ && commit_on_cancel_;
    return end_ && outcome == Outcome::kDone;
  }

  // Where the session will stand after Commit. With something to commit.
  v1::SessionPosition Next() const;

  // Blocks. `reply` is kept for retries, if there will be any; unset, or larger than
  // what can be kept: only the position is.
  absl::StatusOr<v1::SessionPosition> Commit(std::optional<std::string> reply);

 private:
  SessionUse(const SessionCall& call, bool commit_on_cancel, std::unique_ptr<Lease> lease)
      : call_(call), commit_on_cancel_(commit_on_cancel), lease_(std::move(lease)) {}

  const SessionCall call_;
  const bool commit_on_cancel_;
  const std::unique_ptr<Lease> lease_;
  std::optional<Continuation> end_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_SESSION_USE_H_
