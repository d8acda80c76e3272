#include "server/rpc/calls/request_call.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "server/rpc/wire/convert.h"
#include "server/rpc/wire/session_convert.h"
#include "server/rpc/wire/status.h"

namespace tvq {
namespace {

// The permission of Generate and Score is another one than that of sessions.
absl::Status CheckMayUseSessions(const CallContext& context, const Caller& caller) {
  if (context.sessions == nullptr) return NoSessions();
  if (caller.sessions) return absl::OkStatus();
  return Refused(Reason::kPermissionMissing, "session",
                 absl::StrCat("the key ", caller.owner, " lacks the permission sessions"));
}

// A client's own deadline comes to the server as a cancellation, and before the server's: that is
// the time left, which gRPC sends in up to three digits and rounded up.
bool CancelledByDeadline(SteadyTime began, SteadyTime cancelled, SteadyTime deadline) {
  constexpr std::chrono::milliseconds kOnTheWay{50};
  constexpr int kRounding = 100;  // 1001 ms are sent as 1010
  if (deadline == SteadyTime::max()) return false;
  return cancelled >= deadline - (deadline - began) / kRounding - kOnTheWay;
}

}  // namespace

void RequestCall::Begin() {
  grpc::ByteBuffer request;  // not for as long as the call is open
  request.Swap(&queued().request);
  if (!Admit()) return;
  if (request.Length() <= kInlineRequestBytes) return Open(request);
  // The copy shares the bytes.
  OnWorkers(request.Length(), [self = Self(), request] { self->Open(request); });
}

void RequestCall::OnWorkers(size_t bytes, std::function<void()> task) {
  const auto status = context().workers->TrySchedule(caller().sharer, bytes, std::move(task));
  if (!status.ok()) GiveUp(status);
}

void RequestCall::OnSessionThreads(size_t bytes, std::function<void()> task) {
  const auto status = context().session_tasks->TrySchedule(
      caller().sharer, kSessionTaskBytes + bytes, std::move(task));
  if (!status.ok()) GiveUp(status);
}

void RequestCall::Open(const grpc::ByteBuffer& bytes) {
  if (broken_since()) return GiveUp(Refused(Reason::kCancelled, "the call was cancelled"));
  if (auto status = Parse(bytes); !status.ok()) return GiveUp(status);
  const size_t size = bytes.Length();
  const v1::SessionCall* const session = SessionField();
  if (session == nullptr) {
    return size > kInlineRequestBytes ? Prepare(size) : PrepareOnWorkersIfSlow(size);
  }
  OfSession(session->session_id());
  if (auto status = CheckMayUseSessions(context(), caller()); !status.ok()) return GiveUp(status);
  auto call = ToSessionCall(*session, CallHash(), caller().owner);
  if (!call.ok()) return GiveUp(call.status());
  OnSessionThreads(
      size, [self = Self(), call = *std::move(call), commit_on_cancel = session->commit_on_cancel(),
             size] { self->OpenSession(call, commit_on_cancel, size); });
}

void RequestCall::OpenSession(const SessionCall& call, bool commit_on_cancel, size_t bytes) {
  if (broken_since()) return GiveUp(Refused(Reason::kCancelled, "the call was cancelled"));
  auto session = SessionUse::Open(context().sessions, call, commit_on_cancel);
  if (!session.ok()) return GiveUp(session.status());
  session_ = *std::move(session);
  const auto replay = session_->Replay();
  if (!replay.ok()) return GiveUp(replay.status());
  if (*replay) return AnswerRetry(**replay);
  PrepareOnWorkersIfSlow(bytes);
}

void RequestCall::AnswerRetry(const std::string& reply) {
  auto message = Replay(reply, session_->record().persisted_version);
  if (!message.ok()) return GiveUp(message.status());
  const auto room = TakeRoom(static_cast<int64_t>(message->Length()));
  if (!room.ok()) return GiveUp(room);
  session_ = nullptr;
  Answer(*message);
}

void RequestCall::PrepareOnWorkersIfSlow(size_t bytes) {
  if (!ConvertsSlowly()) return ConvertAndSubmit();
  OnWorkers(bytes, [self = Self(), bytes] { self->Prepare(bytes); });
}

void RequestCall::Prepare(size_t bytes) {
  if (broken_since()) return GiveUp(Refused(Reason::kCancelled, "the call was cancelled"));
  if (auto status = PrepareToConvert(session_.get()); !status.ok()) return GiveUp(status);
  if (session_ == nullptr) return ConvertAndSubmit();
  OnSessionThreads(bytes, [self = Self()] { self->ConvertAndSubmit(); });
}

void RequestCall::ConvertAndSubmit() {
  if (broken_since()) return GiveUp(Refused(Reason::kCancelled, "the call was cancelled"));
  absl::StatusOr<Request> request = Convert(session_.get());
  if (!request.ok()) return GiveUp(request.status());
  if (session_ != nullptr) {
    if (auto status = session_->Continue(&*request); !status.ok()) {
      return GiveUp(status);
    }
  }
  if (auto status = Submit(*std::move(request)); !status.ok()) GiveUp(status);
}

absl::StatusOr<const ServedModel*> RequestCall::Model(const std::string& name,
                                                      const SessionUse* session) const {
  const auto& models = context().engine->models();
  return session != nullptr ? FindModel(models, name, session->record()) : FindModel(models, name);
}

void RequestCall::GiveUp(const absl::Status& status) {
  session_ = nullptr;  // before the client hears of it and tries again
  End(status);
}

void RequestCall::Settle(const absl::Status& status, const Usage& usage) {
  if (session_ == nullptr) return Conclude(status, usage);
  context().session_tasks->Schedule(
      caller().sharer, [self = Self(), status, usage] { self->CommitSession(status, usage); });
}

SessionUse::Outcome RequestCall::Outcome(const absl::Status& status) const {
  if (!status.ok() && !absl::IsCancelled(status)) return SessionUse::Outcome::kFailed;
  const auto broken = broken_since();
  if (!broken) return status.ok() ? SessionUse::Outcome::kDone : SessionUse::Outcome::kFailed;
  return CancelledByDeadline(began_, *broken, ToSteady(rpc()->deadline()))
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
