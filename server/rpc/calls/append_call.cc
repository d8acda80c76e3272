#include "server/rpc/calls/append_call.h"

#include <utility>

#include "base/refusal.h"
#include "server/rpc/wire/convert.h"
#include "server/rpc/wire/session_convert.h"
#include "server/rpc/wire/wire.h"

namespace tvq {

void AppendCall::Begin() {
  const grpc::ByteBuffer request = TakeRequest();
  if (!Admit()) return;
  OnSessionTasks(request.Length(), [self = Held(this), request] { self->Open(request); });
}

void AppendCall::Open(const grpc::ByteBuffer& bytes) {
  if (IsCancelled()) return End(Refused(Reason::kCancelled, "the call was cancelled"));
  v1::AppendSessionRequest message;
  if (auto status = ParseMessage(bytes, &message); !status.ok()) return End(status);
  OfSession(message.session().session_id());
  const auto call = ToSessionCall(message, caller().owner);
  if (!call.ok()) return End(call.status());
  auto session = SessionUse::Open(context().sessions, *call, /*commit_on_cancel=*/false);
  if (!session.ok()) return End(session.status());
  session_ = *std::move(session);
  const auto replay = session_->Replay();
  if (!replay.ok()) return End(replay.status());
  if (*replay) return Replay(**replay);
  const auto model = FindModel(context().engine->models(), "", session_->record());
  if (!model.ok()) return End(model.status());
  auto request = ToRequest(message, **model, context().limits, StartOf(&session_->record()));
  if (!request.ok()) return End(request.status());
  if (auto status = Feed(*std::move(request)); !status.ok()) End(status);
}

void AppendCall::Replay(const std::string& reply) {
  v1::AppendSessionResponse response;
  if (auto status = ParseReply(reply, &response); !status.ok()) return End(status);
  response.mutable_session()->set_persisted_version(session_->record().persisted_version);
  Answer(response);
}

absl::Status AppendCall::Feed(Request request) {
  tokens_ = static_cast<int64_t>(request.prompt.size());
  if (auto status = session_->Continue(&request); !status.ok()) return status;
  return Submit(std::move(request));
}

void AppendCall::OnEnd(const absl::Status& status, const Usage&) {
  context().session_tasks->Schedule(caller().sharer, [self = Held(this), status] {
    if (!status.ok() || self->IsCancelled() ||
        !self->session_->HasEnd(SessionUse::Outcome::kDone)) {
      return self->End(status.ok() ? Refused(Reason::kCancelled, "the call was cancelled")
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
  if (!position.ok()) return End(position.status());
  *response.mutable_session() = *position;
  Answer(response);
}

}  // namespace tvq
