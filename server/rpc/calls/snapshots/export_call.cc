#include "server/rpc/calls/snapshots/export_call.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "server/rpc/wire/session_convert.h"
#include "server/rpc/wire/wire.h"
#include "tvq/v1/session.pb.h"

namespace tvq {

void ExportCall::Begin() {
  const grpc::ByteBuffer request = TakeRequest();
  if (!Admit()) return;
  OnSessionTasks(request.Length(), [self = Held(this), request] { self->Open(request); });
}

void ExportCall::Open(const grpc::ByteBuffer& request) {
  v1::ExportSessionRequest message;
  if (auto status = ParseMessage(request, &message); !status.ok()) return End(status);
  OfSession(message.session().session_id());
  const auto call = ToSessionCall(message, caller().owner);
  if (!call.ok()) return End(call.status());
  auto stream = context().sessions->Export(
      *call, [this](int64_t kept, int64_t total) { return MakeRoom(kept, total); });
  if (!stream.ok()) return End(stream.status());
  const auto status = MakeRoom((*stream)->kept_bytes(), (*stream)->total_bytes());
  if (!status.ok()) return End(status);
  sender_.Start(*std::move(stream));
  SendNext();
}

absl::Status ExportCall::MakeRoom(int64_t kept, int64_t total) {
  return TakeRoom(kept + std::min(kSnapshotChunkBytes, total));
}

void ExportCall::SendNext() {
  auto message = sender_.Next<v1::ExportSessionResponse>(kSnapshotChunkBytes);
  if (!message.ok() || !*message) return End(message.status());
  sender_.Arm(context().stall_timeout, shared_from_this());
  reader().Arm(2 * context().stall_timeout, shared_from_this());
  rpc().Write(**message);
}

void ExportCall::OnWritten(bool ok) {
  reader().Disarm();
  if (auto status = sender_.Written(ok); !status.ok()) return End(status);
  context().session_tasks->Schedule(caller().sharer, [self = Held(this)] { self->SendNext(); });
}

}  // namespace tvq
