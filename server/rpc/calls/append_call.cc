#include "server/rpc/calls/append_call.h"

#include <string>
#include <utility>

#include "server/rpc/wire/convert.h"
#include "server/rpc/wire/session_convert.h"
#include "server/rpc/wire/status.h"
#include "server/rpc/wire/wire.h"

namespace tvq {
namespace {

constexpr MethodInfo kAppend{"SessionService/AppendSession", Permission::kSessions};

}  // namespace

AppendCall::AppendCall(const CallContext& context, grpc::CallbackServerContext* rpc,
                       grpc::ByteBuffer* out)
    : UnaryReactor(context, kAppend, rpc, out, context.answers), in_engine_(context.engine) {}

void AppendCall::Begin(const grpc::ByteBuffer& request) {
  if (!Admit()) return;
  const auto status =
      context().session_tasks->TrySchedule(caller().sharer, kSessionTaskBytes + request.Length(),
                                           [self = Self(), request] { self->Open(request); });
  if (!status.ok()) GiveUp(status, /*busy=*/true);
}

void AppendCall::Open(const grpc::ByteBuffer& bytes) {
  if (rpc()->IsCancelled()) return GiveUp(absl::CancelledError("the call was cancelled"));
  v1::AppendSessionRequest message;
  if (auto status = ParseMessage(bytes, &message); !status.ok()) return GiveUp(status);
  const auto call = ToSessionCall(message, caller().owner);
  if (!call.ok()) return GiveUp(call.status());
  auto session = SessionUse::Open(context().sessions, *call, /*commit_on_cancel=*/false);
  if (!session.ok()) return GiveUp(session.status(), /*busy=*/true);
  session_ = *std::move(session);
  const auto replay = session_->Replay();
  if (!replay.ok()) return GiveUp(replay.status());
  if (*replay) return Replay(**replay);
  const auto model = FindModel(context().engine->models(), "", session_->record());
  if (!model.ok()) return GiveUp(model.status());
  auto request = ToRequest(message, **model, context().limits, StartOf(&session_->record()));
  if (!request.ok()) return GiveUp(request.status());
  Submit(*std::move(request));
}

void AppendCall::Replay(const std::string& reply) {
  v1::AppendSessionResponse response;
  if (auto status = ParseReply(reply, &response); !status.ok()) return GiveUp(status);
  response.mutable_session()->set_persisted_version(session_->record().persisted_version);
  Reply(response);
}

void AppendCall::Submit(Request request) {
  tokens_ = static_cast<int64_t>(request.prompt.size());
  if (auto status = session_->Continue(&request); !status.ok()) {
    return GiveUp(status, /*busy=*/true);
  }
  const absl::Status status =
      in_engine_.Submit(std::move(request), caller(), Self(), rpc(), context().sessions);
  if (!status.ok()) GiveUp(status);
}

void AppendCall::OnEnd(const absl::Status& status, const Usage&) {
  context().session_tasks->Schedule(caller().sharer, [self = Self(), status] {
    if (!status.ok() || self->rpc()->IsCancelled() ||
        !self->session_->HasEnd(SessionUse::Outcome::kDone)) {
      return self->Fail(status.ok() ? absl::CancelledError("the call was cancelled") : status);
    }
    self->Commit();
  });
}

void AppendCall::Commit() {
  v1::AppendSessionResponse response;
  *response.mutable_session() = session_->Next();
  response.set_tokens(tokens_);
  const auto position = session_->Commit(response.SerializeAsString());
  if (!position.ok()) {
    AddRetryPushback(position.status(), /*fits_idle_server=*/true, rpc());
    return Fail(position.status());
  }
  *response.mutable_session() = *position;
  Reply(response);
}

void AppendCall::GiveUp(const absl::Status& status, bool busy) {
  session_ = nullptr;
  Refuse(status, busy);
}

void AppendCall::Fail(const absl::Status& status) {
  session_ = nullptr;
  End(status);
}

void AppendCall::Reply(const v1::AppendSessionResponse& response) {
  session_ = nullptr;
  Answer(response);
}

}  // namespace tvq
