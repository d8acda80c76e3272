#ifndef TVQ_SERVER_RPC_CALLS_REQUEST_CALL_H_
#define TVQ_SERVER_RPC_CALLS_REQUEST_CALL_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/rpc/calls/session_use.h"
#include "server/rpc/calls/stream_call.h"
#include "server/rpc/wire/request_hash.h"
#include "tvq/v1/session.pb.h"

namespace tvq {

// A call that is one request, perhaps on a session. Then it begins and ends with a task that may
// block: the first takes the session's lease, the last commits what the engine left, whether or not
// the client still listens.
class RequestCall : public StreamCall {
 public:
  using StreamCall::StreamCall;

  // Reads the request and submits it, here or on other threads, if the caller may.
  void Begin() override;

  void OnKept(Continuation end) override { session_->Keep(std::move(end)); }

 protected:
  virtual absl::Status Parse(const grpc::ByteBuffer& bytes) = 0;
  // The session of the message that was parsed; null: none.
  virtual const v1::SessionCall* SessionField() const = 0;
  // HashOfCall of the message that was parsed.
  virtual uint64_t CallHash() const = 0;
  // 0 if PrepareToConvert is quick for a message of few bytes. Otherwise the bytes by which workers
  // rank the work: at least those of the message, and more if it may take longer than they say.
  virtual size_t SlowWork(size_t /*bytes*/) const { return 0; }
  // What Convert needs of the message that was parsed, and computes for long. Does not block:
  // few threads do this for all. `session` is null without one.
  virtual absl::Status PrepareToConvert(const SessionUse* /*session*/) { return absl::OkStatus(); }
  // Converts the parsed message to a Request, after PrepareToConvert. May keep what ToMessage
  // needs. Blocks if there is a session.
  virtual absl::StatusOr<Request> Convert(SessionUse* session) = 0;

  // The model that is asked for by `name`, or the session's.
  absl::StatusOr<const ServedModel*> Model(const std::string& name,
                                           const SessionUse* session) const;

  // Of a call on a session that may be retried: its reply, to be kept, unset if it is too large;
  // and what a retry is answered with a reply that was kept.
  virtual std::optional<std::string> Reply(const Usage& usage,
                                           const v1::SessionPosition& position) = 0;
  virtual absl::StatusOr<grpc::ByteBuffer> Replay(const std::string& reply,
                                                  int64_t persisted_version) = 0;
  // Whether Reply will be asked for.
  bool keeps_reply() const { return session_ != nullptr && session_->keeps_reply(); }

  void LetGo() override { session_ = nullptr; }
  void Settle(const absl::Status& status, const Usage& usage) override;

 private:
  void Open(const grpc::ByteBuffer& bytes);
  // `bytes`: of the request.
  void OpenSession(const SessionCall& call, bool commit_on_cancel, size_t bytes);
  void PrepareOnWorkersIfSlow(size_t bytes);
  void Prepare(size_t bytes);
  void ConvertAndSubmit();
  void CommitSession(const absl::Status& status, const Usage& usage);
  // What became of the call for its session.
  SessionUse::Outcome Outcome(const absl::Status& status) const;

  const SteadyTime began_ = std::chrono::steady_clock::now();
  // From the lease to the commit; the thread that has the call at its beginning, the loop, the task
  // at its end.
  std::unique_ptr<SessionUse> session_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_REQUEST_CALL_H_
