#include "server/rpc/export_call.h"

#include <string>
#include <utility>

#include "server/rpc/session_convert.h"
#include "server/rpc/status.h"
#include "server/rpc/wire.h"
#include "tvq/v1/session.pb.h"

namespace tvq {
namespace {

constexpr MethodInfo kExport{"SessionService/ExportSession", Permission::kSessions};

}  // namespace

ExportCall::ExportCall(const CallContext& context, grpc::CallbackServerContext* rpc)
    : context_(context), rpc_(rpc), scope_(context, kExport, rpc) {}

void ExportCall::Begin(const grpc::ByteBuffer& request) {
  self_ = shared_from_this();
  if (const auto admitted = scope_.Begin(); !admitted.ok()) {
    return End(admitted);
  }
  if (!context_.session_tasks->TrySchedule(kSessionTaskBytes + request.Length(),
                                           [self = self_, request] { self->Open(request); })) {
    Refuse(SessionTasksBusy());
  }
}

void ExportCall::Open(const grpc::ByteBuffer& request) {
  v1::ExportSessionRequest message;
  if (auto status = ParseMessage(request, &message); !status.ok()) return Refuse(status);
  const auto call = ToSessionCall(message, scope_.caller().owner);
  if (!call.ok()) return Refuse(call.status());
  auto stream = context_.sessions->Export(*call);
  if (!stream.ok()) return Refuse(stream.status());
  {
    absl::MutexLock lock(&mutex_);
    stream_ = *std::move(stream);
  }
  SendNext();
}

absl::Status ExportCall::ReadNext(v1::ExportSessionResponse* message) {
  absl::MutexLock lock(&mutex_);  // nobody else wants it now
  auto chunk = stream_->Next(kSnapshotChunkBytes);
  if (!chunk.ok()) return chunk.status();
  message->set_chunk(*std::move(chunk));
  if (std::exchange(first_, false)) message->set_total_bytes(stream_->total_bytes());
  return absl::OkStatus();
}

void ExportCall::SendNext() {
  v1::ExportSessionResponse message;
  const absl::Status read = ReadNext(&message);
  if (!read.ok() || message.chunk().empty()) return End(read);
  auto bytes = SerializeMessage(message);
  if (!bytes.ok()) return End(bytes.status());
  message_ = *std::move(bytes);
  guard_.Arm(context_.stall_timeout, [self = shared_from_this()] { self->DropStream(); });
  StartWrite(&message_);
}

void ExportCall::DropStream() {
  absl::MutexLock lock(&mutex_);
  stream_ = nullptr;
}

void ExportCall::OnWriteDone(bool ok) {
  const bool in_time = guard_.Disarm();
  if (!ok) return End(absl::CancelledError("the client is gone"));
  if (!in_time) return End(Stalled(context_.stall_timeout));
  context_.session_tasks->Schedule([self = shared_from_this()] { self->SendNext(); });
}

void ExportCall::Refuse(const absl::Status& status) {
  scope_.Refuse(status);
  AddRetryPushback(status, /*fits_idle_server=*/true, rpc_);
  End(status);
}

void ExportCall::End(const absl::Status& status) {
  DropStream();
  Finish(scope_.End(status));
}

void ExportCall::OnDone() {
  scope_.Done();
  self_.reset();
}

}  // namespace tvq
