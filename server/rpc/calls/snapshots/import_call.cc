#include "server/rpc/calls/snapshots/import_call.h"

#include <utility>

#include "base/refusal.h"
#include "server/rpc/wire/convert.h"
#include "server/rpc/wire/session_convert.h"
#include "server/rpc/wire/wire.h"

namespace tvq {

void ImportCall::Begin() {
  if (!Admit()) return;
  if (context().sessions == nullptr) return End(NoSessions());
  if (auto status = CheckNotDraining(context()); !status.ok()) return End(status);
  receiver_ = std::make_unique<SnapshotReceiver>(
      context().sessions, ByteQuota::Share(context().uploads, caller().sharer),
      context().stall_timeout);
  ReadNext();
}

void ImportCall::ReadNext() {
  ++reads_;
  guard_.Arm(context().stall_timeout,
             [self = Held(this)] { self->End(Stalled(self->context().stall_timeout)); });
  rpc().Read(&message_);
}

void ImportCall::OnRead(bool ok) {
  if (!guard_.Disarm()) return;  // ended
  if (IsCancelled()) {
    return End(Refused(Reason::kCancelled, "the call was cancelled"));
  }
  OnSessionTasks(message_.Length(),
                 [self = Held(this), ok] { ok ? self->OnMessage() : self->OnLast(); });
}

void ImportCall::OnMessage() {
  const absl::StatusOr<std::string> chunk = ReadChunk(reads_ == 1);
  message_.Clear();
  if (!chunk.ok()) return End(chunk.status());
  if (auto status = receiver_->Add(*chunk, guard_.took()); !status.ok()) {
    return End(status);
  }
  ReadNext();
}

absl::StatusOr<std::string> ImportCall::ReadChunk(bool first) {
  v1::ImportSessionRequest message;
  if (auto status = ParseMessage(message_, &message); !status.ok()) return status;
  if (message.has_create() != first) {
    return first ? Refused(Reason::kValueMissing, "create", "must be set in the first message")
                 : Refused(Reason::kValuesConflict, "create",
                           "is set, may be in the first message only");
  }
  if (first) {
    auto options = ToCreateOptions(message.create());
    if (!options.ok()) return options.status();
    options_ = *std::move(options);
    hash_ = HashOfCreation(message.create());
    if (!options_.model.empty()) {
      const auto model = FindModel(context().engine->models(), options_.model);
      if (!model.ok()) return model.status();
    }
  }
  hash_.Add(std::string_view(message.chunk()));
  return std::move(*message.mutable_chunk());
}

void ImportCall::OnLast() {
  if (reads_ == 1) {
    return End(
        Refused(Reason::kMessageInvalid, "the call has no message; the first must have come"));
  }
  // The end of the client's messages comes before its cancellation.
  if (IsCancelled()) return End(Refused(Reason::kCancelled, "the call was cancelled"));
  const auto response = Complete();
  if (!response.ok()) return End(response.status());
  Answer(*response);
}

absl::StatusOr<v1::ImportSessionResponse> ImportCall::Complete() {
  options_.request_hash = hash_.value();
  const auto view = context().sessions->Import(caller().owner, options_, receiver_->Take());
  if (!view.ok()) return view.status();
  v1::ImportSessionResponse response;
  ToProto(*view, response.mutable_session());
  return response;
}

}  // namespace tvq
