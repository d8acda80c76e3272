#include "server/rpc/append_call.h"

#include <string>
#include <utility>

#include "server/rpc/convert.h"
#include "server/rpc/session_convert.h"
#include "server/rpc/status.h"
#include "server/rpc/wire.h"

namespace tvq {
namespace {

constexpr MethodInfo kAppend{"SessionService/AppendSession", Permission::kSessions};

}  // namespace

AppendCall::AppendCall(const CallContext& context, grpc::CallbackServerContext* rpc,
                       grpc::ByteBuffer* out)
    : context_(context), rpc_(rpc), out_(out), scope_(context, kAppend, rpc) {}

void AppendCall::Begin(const grpc::ByteBuffer& request) {
  self_ = shared_from_this();
  if (const auto admitted = scope_.Begin(); !admitted.ok()) {
    return End(admitted);
  }
  if (!context_.session_tasks->TrySchedule(kSessionTaskBytes + request.Length(),
                                           [self = self_, request] { self->Open(request); })) {
    Refuse(SessionTasksBusy());
  }
}

void AppendCall::Open(const grpc::ByteBuffer& bytes) {
  if (rpc_->IsCancelled()) return Refuse(absl::CancelledError("the call was cancelled"));
  v1::AppendSessionRequest message;
  if (auto status = ParseMessage(bytes, &message); !status.ok()) return Refuse(status);
  const auto call = ToSessionCall(message, scope_.caller().owner);
  if (!call.ok()) return Refuse(call.status());
  auto session = SessionUse::Open(context_.sessions, *call, /*commit_on_cancel=*/false);
  if (!session.ok()) return Refuse(session.status());
  session_ = *std::move(session);
  const auto replay = session_->Replay();
  if (!replay.ok()) return Refuse(replay.status());
  if (*replay) return Replay(**replay);
  const auto model = FindModel(context_.engine->models(), "", session_->record());
  if (!model.ok()) return Refuse(model.status());
  auto request = ToRequest(message, **model, context_.limits);
  if (!request.ok()) return Refuse(request.status());
  Submit(*std::move(request));
}

void AppendCall::Replay(const std::string& reply) {
  v1::AppendSessionResponse response;
  if (auto status = ParseReply(reply, &response); !status.ok()) return Refuse(status);
  response.mutable_session()->set_persisted_version(session_->record().persisted_version);
  auto bytes = SerializeMessage(response);
  if (!bytes.ok()) return End(bytes.status());
  *out_ = *std::move(bytes);
  End(absl::OkStatus());
}

void AppendCall::Submit(Request request) {
  tokens_ = static_cast<int64_t>(request.prompt.size());
  request.id = scope_.caller().request_id;
  request.owner = scope_.caller().owner;
  request.deadline = ToSteady(rpc_->deadline());
  request.sink = shared_from_this();
  if (auto status = session_->Continue(&request); !status.ok()) return Refuse(status);
  const auto handle = context_.engine->Submit(std::move(request));
  if (!handle.ok()) return Refuse(handle.status());
  bool cancelled;
  {
    absl::MutexLock lock(&mutex_);
    handle_ = *handle;
    cancelled = cancelled_;
  }
  if (cancelled) context_.engine->Cancel(*handle);
}

void AppendCall::OnDone(const absl::Status& status, const Usage&) {
  context_.session_tasks->Schedule([self = shared_from_this(), status] {
    if (!status.ok() || self->rpc_->IsCancelled() ||
        !self->session_->HasEnd(SessionUse::Outcome::kDone)) {
      return self->End(status.ok() ? absl::CancelledError("the call was cancelled") : status);
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
  auto bytes = SerializeMessage(response);
  if (!bytes.ok()) return End(bytes.status());
  *out_ = *std::move(bytes);
  End(absl::OkStatus());
}

void AppendCall::OnCancel() {
  RequestHandle handle;
  {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    handle = handle_;
  }
  if (handle != 0) context_.engine->Cancel(handle);
}

void AppendCall::Refuse(const absl::Status& status) {
  scope_.Refuse(status);
  End(status);
}

void AppendCall::End(const absl::Status& status) {
  session_ = nullptr;
  AddRetryPushback(status, /*fits_idle_server=*/true, rpc_);
  Finish(scope_.End(status));
}

void AppendCall::OnDone() {
  scope_.Done();
  self_.reset();
}

}  // namespace tvq
