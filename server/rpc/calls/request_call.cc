#include "server/rpc/calls/request_call.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "server/rpc/wire/convert.h"
#include "server/rpc/wire/session_convert.h"

namespace tvq {
namespace {

// The permission of Generate and Score is another one than that of sessions.
absl::Status CheckMayUseSessions(const CallContext& context, const Caller& caller) {
  if (context.sessions == nullptr) return NoSessions();
  if (caller.sessions) return absl::OkStatus();
  return Refused(Reason::kPermissionMissing, "session",
                 absl::StrCat("the key ", caller.owner, " lacks the permission sessions"));
}

// When a client's own deadline passes, the server sees a cancellation, and sees it before its own
// deadline: gRPC sends the time that is left in up to three digits, rounded up.
bool CancelledByDeadline(SteadyTime began, SteadyTime cancelled, SteadyTime deadline) {
  constexpr std::chrono::milliseconds kOnTheWay{50};
  constexpr int kRounding = 100;  // 1001 ms are sent as 1010
  if (deadline == SteadyTime::max()) return false;
  return cancelled >= deadline - (deadline - began) / kRounding - kOnTheWay;
}

}  // namespace

void RequestCall::Begin() {
  const grpc::ByteBuffer request = TakeRequest();
  if (!Admit()) return;
  if (request.Length() <= kInlineRequestBytes) return Open(request);
  // The copy shares the bytes.
  OnWorkers(request.Length(), [self = Held(this), request] { self->Open(request); });
}

void RequestCall::Open(const grpc::ByteBuffer& bytes) {
  if (broken_since()) return End(Refused(Reason::kCancelled, "the call was cancelled"));
  if (auto status = Parse(bytes); !status.ok()) return End(status);
  const size_t size = bytes.Length();
  const v1::SessionCall* const session = SessionField();
  if (session == nullptr) {
    const bool on_right_worker = size > kInlineRequestBytes && SlowWork(size) <= size;
    return on_right_worker ? Prepare(size) : PrepareOnWorkersIfSlow(size);
  }
  OfSession(session->session_id());
  if (auto status = CheckMayUseSessions(context(), caller()); !status.ok()) return End(status);
  auto call = ToSessionCall(*session, CallHash(), caller().owner);
  if (!call.ok()) return End(call.status());
  OnSessionTasks(size, [self = Held(this), call = *std::move(call),
                        commit_on_cancel = session->commit_on_cancel(),
                        size] { self->OpenSession(call, commit_on_cancel, size); });
}

void RequestCall::OpenSession(const SessionCall& call, bool commit_on_cancel, size_t bytes) {
  if (broken_since()) return End(Refused(Reason::kCancelled, "the call was cancelled"));
  auto session = SessionUse::Open(context().sessions, call, commit_on_cancel);
  if (!session.ok()) return End(session.status());
  session_ = *std::move(session);
  const auto replay = session_->Replay();
  if (!replay.ok()) return End(replay.status());
  if (*replay) return Answer(Replay(**replay, session_->record().persisted_version));
  PrepareOnWorkersIfSlow(bytes);
}

void RequestCall::PrepareOnWorkersIfSlow(size_t bytes) {
  const size_t work = SlowWork(bytes);
  if (work == 0) return ConvertAndSubmit();
  OnWorkers(work, [self = Held(this), bytes] { self->Prepare(bytes); });
}

void RequestCall::Prepare(size_t bytes) {
  if (broken_since()) return End(Refused(Reason::kCancelled, "the call was cancelled"));
  if (auto status = PrepareToConvert(session_.get()); !status.ok()) return End(status);
  if (session_ == nullptr) return ConvertAndSubmit();
  OnSessionTasks(bytes, [self = Held(this)] { self->ConvertAndSubmit(); });
}

void RequestCall::ConvertAndSubmit() {
  if (broken_since()) return End(Refused(Reason::kCancelled, "the call was cancelled"));
  absl::StatusOr<Request> request = Convert(session_.get());
  if (!request.ok()) return End(request.status());
  if (session_ != nullptr) {
    if (auto status = session_->Continue(&*request); !status.ok()) {
      return End(status);
    }
  }
  if (auto status = Submit(*std::move(request)); !status.ok()) End(status);
}

absl::StatusOr<const ServedModel*> RequestCall::Model(const std::string& name,
                                                      const SessionUse* session) const {
  const auto& models = context().engine->models();
  return session != nullptr ? FindModel(models, name, session->record()) : FindModel(models, name);
}

void RequestCall::Settle(const absl::Status& status, const Usage& usage) {
  if (session_ == nullptr) return Conclude(status, usage);
  context().session_tasks->Schedule(
      caller().sharer, [self = Held(this), status, usage] { self->CommitSession(status, usage); });
}

SessionUse::Outcome RequestCall::Outcome(const absl::Status& status) const {
  if (!status.ok() && !absl::IsCancelled(status)) return SessionUse::Outcome::kFailed;
  const auto broken = broken_since();
  if (!broken) return status.ok() ? SessionUse::Outcome::kDone : SessionUse::Outcome::kFailed;
  return CancelledByDeadline(began_, *broken, ToSteady(rpc().context.deadline()))
             ? SessionUse::Outcome::kFailed
             : SessionUse::Outcome::kCancelled;
}

void RequestCall::CommitSession(const absl::Status& status, const Usage& usage) {
  if (!session_->HasEnd(Outcome(status))) {
    session_ = nullptr;
    return Conclude(status.ok() ? Refused(Reason::kCancelled, "the call was cancelled") : status,
                    usage);
  }
  std::optional<std::string> reply;
  if (session_->keeps_reply()) reply = Reply(usage, session_->Next());
  auto position = session_->Commit(std::move(reply));
  session_ = nullptr;
  if (!position.ok()) return Conclude(position.status(), usage);
  Conclude(status, usage, *std::move(position));
}

}  // namespace tvq
