#include "server/rpc/calls/snapshots/export_call.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "server/rpc/wire/session_convert.h"
#include "server/rpc/wire/status.h"
#include "server/rpc/wire/wire.h"
#include "tvq/v1/session.pb.h"

namespace tvq {
namespace {

constexpr MethodInfo kExport{"SessionService/ExportSession", Permission::kSessions};

}  // namespace

ExportCall::ExportCall(const CallContext& context, grpc::CallbackServerContext* rpc)
    : context_(context), scope_(context, kExport, rpc), reader_(rpc) {}

void ExportCall::Begin(const grpc::ByteBuffer& request) {
  self_ = shared_from_this();
  if (const auto admitted = scope_.Begin(); !admitted.ok()) {
    return End(admitted);
  }
  const auto status = context_.session_tasks->TrySchedule(
      scope_.caller().sharer, kSessionTaskBytes + request.Length(),
      [self = self_, request] { self->Open(request); });
  if (!status.ok()) End(status);
}

void ExportCall::Open(const grpc::ByteBuffer& request) {
  v1::ExportSessionRequest message;
  if (auto status = ParseMessage(request, &message); !status.ok()) return End(status);
  scope_.OfSession(message.session().session_id());
  const auto call = ToSessionCall(message, scope_.caller().owner);
  if (!call.ok()) return End(call.status());
  room_ = ByteQuota::Share(context_.answers, scope_.caller().sharer);
  auto stream = context_.sessions->Export(
      *call, [this](int64_t kept, int64_t total) { return TakeRoom(kept, total); });
  if (!stream.ok()) return End(stream.status());
  const auto status = TakeRoom((*stream)->kept_bytes(), (*stream)->total_bytes());
  if (!status.ok()) return End(status);
  sender_.Start(*std::move(stream));
  SendNext();
}

absl::Status ExportCall::TakeRoom(int64_t kept, int64_t total) {
  const int64_t wanted = kept + std::min(kSnapshotChunkBytes, total);
  return room_.Add(std::max(int64_t{0}, wanted - room_.bytes()));
}

void ExportCall::SendNext() {
  auto message = sender_.Next<v1::ExportSessionResponse>(kSnapshotChunkBytes);
  if (!message.ok() || !*message) return End(message.status());
  message_ = **std::move(message);
  sender_.Arm(context_.stall_timeout, shared_from_this());
  reader_.Arm(2 * context_.stall_timeout, shared_from_this());
  StartWrite(&message_);
}

void ExportCall::OnWriteDone(bool ok) {
  reader_.Disarm();
  if (auto status = sender_.Written(ok); !status.ok()) return End(status);
  context_.session_tasks->Schedule(scope_.caller().sharer,
                                   [self = shared_from_this()] { self->SendNext(); });
}

void ExportCall::End(const absl::Status& status) {
  sender_.Drop();
  Finish(scope_.End(status));
}

void ExportCall::OnDone() {
  reader_.Done();
  room_ = {};
  scope_.Done();
  self_.reset();
}

}  // namespace tvq
