#include "server/rpc/calls/snapshots/upload_call.h"

#include <utility>

#include "server/rpc/wire/status.h"

namespace tvq {

void UploadCall::Begin() {
  self_ = shared_from_this();
  if (const auto admitted = scope_.Begin(); !admitted.ok()) {
    return Finish(scope_.End(admitted));
  }
  if (context_.sessions == nullptr) return Refuse(NoSessions(), /*busy=*/false);
  if (auto status = CheckNotDraining(context_); !status.ok()) return Refuse(status, /*busy=*/false);
  receiver_ = std::make_unique<SnapshotReceiver>(
      context_.sessions, ByteQuota::Share(context_.uploads, caller().sharer),
      context_.stall_timeout);
  ReadNext();
}

void UploadCall::ReadNext() {
  ++reads_;
  guard_.Arm(context_.stall_timeout, [self = shared_from_this()] {
    self->Refuse(Stalled(self->context_.stall_timeout), /*busy=*/false);
  });
  StartRead(&message_);
}

void UploadCall::OnReadDone(bool ok) {
  if (!guard_.Disarm()) return;  // ended
  if (rpc_->IsCancelled()) {
    return Refuse(absl::CancelledError("the call was cancelled"), /*busy=*/false);
  }
  const auto status = context_.session_tasks->TrySchedule(
      caller().sharer, kSessionTaskBytes + message_.Length(),
      [self = self_, ok] { ok ? self->OnMessage() : self->OnLast(); });
  if (!status.ok()) Refuse(status, /*busy=*/true);
}

void UploadCall::OnMessage() {
  const absl::StatusOr<std::string> chunk = Read(message_, reads_ == 1);
  message_.Clear();
  if (!chunk.ok()) return Refuse(chunk.status(), /*busy=*/true);
  if (auto status = receiver_->Add(*chunk, guard_.took()); !status.ok()) {
    return Refuse(status, receiver_->busy());
  }
  ReadNext();
}

void UploadCall::OnLast() {
  if (reads_ == 1) {
    return Refuse(absl::InvalidArgumentError("the call has no message; the first must have come"),
                  /*busy=*/false);
  }
  auto response = Complete(receiver_->Take());
  if (!response.ok()) return Refuse(response.status(), /*busy=*/true);
  *out_ = *std::move(response);
  receiver_ = nullptr;
  Finish(scope_.End(absl::OkStatus()));
}

void UploadCall::Refuse(const absl::Status& status, bool busy) {
  receiver_ = nullptr;
  AddRetryPushback(status, /*fits_idle_server=*/busy, rpc_);
  scope_.Refuse(status);
  Finish(scope_.End(status));
}

void UploadCall::OnDone() {
  scope_.Done();
  self_.reset();
}

}  // namespace tvq
