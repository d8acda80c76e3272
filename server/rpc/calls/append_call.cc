#include "server/rpc/calls/append_call.h"

#include <string>
#include <utility>

#include "base/refusal.h"
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
  if (!status.ok()) Fail(status);
}

void AppendCall::Open(const grpc::ByteBuffer& bytes) {
  if (rpc()->IsCancelled()) return Fail(Refused(Reason::kCancelled, "the call was cancelled"));
  v1::AppendSessionRequest message;
  if (auto status = ParseMessage(bytes, &message); !status.ok()) return Fail(status);
  OfSession(message.session().session_id());
  const auto call = ToSessionCall(message, caller().owner);
  if (!call.ok()) return Fail(call.status());
  auto session = SessionUse::Open(context().sessions, *call, /*commit_on_cancel=*/false);
  if (!session.ok()) return Fail(session.status());
  session_ = *std::move(session);
  const auto replay = session_->Replay();
  if (!replay.ok()) return Fail(replay.status());
  if (*replay) return Replay(**replay);
  const auto model = FindModel(context().engine->models(), "", session_->record());
  if (!model.ok()) return Fail(model.status());
  auto request = ToRequest(message, **model, context().limits, StartOf(&session_->record()));
  if (!request.ok()) return Fail(request.status());
  Submit(*std::move(request));
}

void AppendCall::Replay(const std::string& reply) {
  v1::AppendSessionResponse response;
  if (auto status = ParseReply(reply, &response); !status.ok()) return Fail(status);
  response.mutable_session()->set_persisted_version(session_->record().persisted_version);
  Reply(response);
}

void AppendCall::Submit(Request request) {
  tokens_ = static_cast<int64_t>(request.prompt.size());
  if (auto status = session_->Continue(&request); !status.ok()) {
    return Fail(status);
  }
  const absl::Status status =
      in_engine_.Submit(std::move(request), caller(), Self(), rpc(), context().sessions);
  if (!status.ok()) Fail(status);
}

void AppendCall::OnEnd(const absl::Status& status, const Usage&) {
  context().session_tasks->Schedule(caller().sharer, [self = Self(), status] {
    if (!status.ok() || self->rpc()->IsCancelled() ||
        !self->session_->HasEnd(SessionUse::Outcome::kDone)) {
      return self->Fail(status.ok() ? Refused(Reason::kCancelled, "the call was cancelled")
                                    : status);
    }
    self->Commit();
  });
}

void AppendCall::Commit() {
  v1::AppendSessionResponse response;
  *response.mutable_session() = session_->Next();
  response.set_tokens(tokens_);
  const auto position = session_->Commit(response.SerializeAsString());
  if (!position.ok()) return Fail(position.status());
  *response.mutable_session() = *position;
  Reply(response);
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
