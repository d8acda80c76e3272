#include "server/rpc/calls/snapshots/import_call.h"

#include <utility>

#include "base/refusal.h"
#include "server/rpc/wire/convert.h"
#include "server/rpc/wire/session_convert.h"
#include "server/rpc/wire/status.h"
#include "server/rpc/wire/wire.h"
#include "tvq/v1/session.pb.h"

namespace tvq {
namespace {

constexpr MethodInfo kImport{"SessionService/ImportSession", Permission::kSessions};

}  // namespace

ImportCall::ImportCall(const CallContext& context, grpc::CallbackServerContext* rpc,
                       grpc::ByteBuffer* out)
    : context_(context), rpc_(rpc), out_(out), scope_(context, kImport, rpc) {}

void ImportCall::Begin() {
  self_ = shared_from_this();
  if (const auto admitted = scope_.Begin(); !admitted.ok()) {
    return Finish(scope_.End(admitted));
  }
  if (context_.sessions == nullptr) return End(NoSessions());
  if (auto status = CheckNotDraining(context_); !status.ok()) return End(status);
  receiver_ = std::make_unique<SnapshotReceiver>(
      context_.sessions, ByteQuota::Share(context_.uploads, scope_.caller().sharer),
      context_.stall_timeout);
  ReadNext();
}

void ImportCall::ReadNext() {
  ++reads_;
  guard_.Arm(context_.stall_timeout,
             [self = shared_from_this()] { self->End(Stalled(self->context_.stall_timeout)); });
  StartRead(&message_);
}

void ImportCall::OnReadDone(bool ok) {
  if (!guard_.Disarm()) return;  // ended
  if (rpc_->IsCancelled()) {
    return End(Refused(Reason::kCancelled, "the call was cancelled"));
  }
  const auto status = context_.session_tasks->TrySchedule(
      scope_.caller().sharer, kSessionTaskBytes + message_.Length(),
      [self = self_, ok] { ok ? self->OnMessage() : self->OnLast(); });
  if (!status.ok()) End(status);
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
      const auto model = FindModel(context_.engine->models(), options_.model);
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
  if (auto status = Complete(); !status.ok()) return End(status);
  receiver_ = nullptr;
  Finish(scope_.End(absl::OkStatus()));
}

absl::Status ImportCall::Complete() {
  options_.request_hash = hash_.value();
  const auto view = context_.sessions->Import(scope_.caller().owner, options_, receiver_->Take());
  if (!view.ok()) return view.status();
  v1::ImportSessionResponse response;
  ToProto(*view, response.mutable_session());
  auto bytes = SerializeMessage(response);
  if (!bytes.ok()) return bytes.status();
  *out_ = *std::move(bytes);
  return absl::OkStatus();
}

void ImportCall::End(const absl::Status& status) {
  receiver_ = nullptr;
  Finish(scope_.End(status));
}

void ImportCall::OnDone() {
  scope_.Done();
  self_.reset();
}

}  // namespace tvq
