#include "server/rpc/calls/snapshots/generate_with_state_call.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/refusal.h"
#include "server/rpc/wire/conversation.h"
#include "server/rpc/wire/convert.h"
#include "server/rpc/wire/form.h"
#include "server/rpc/wire/session_convert.h"
#include "server/rpc/wire/wire.h"

namespace tvq {

void GenerateWithStateCall::Begin() {
  if (!Admit()) return;
  if (context().sessions == nullptr) return End(NoSessions());
  receiver_ = std::make_unique<SnapshotReceiver>(
      context().sessions, ByteQuota::Share(context().uploads, caller().sharer),
      context().stall_timeout);
  ReadNext();
}

void GenerateWithStateCall::ReadNext() {
  ++reads_;
  guard_.Arm(context().stall_timeout,
             [self = Held(this)] { self->End(Stalled(self->context().stall_timeout)); });
  rpc().Read(&in_);
}

void GenerateWithStateCall::OnRead(bool ok) {
  if (!guard_.Disarm()) return;  // refused
  if (broken_since()) {
    return End(Refused(Reason::kCancelled, "the call was cancelled"));
  }
  OnSessionTasks(in_.Length(),
                 [self = Held(this), ok] { ok ? self->OnMessage() : self->OnLast(); });
}

absl::Status GenerateWithStateCall::ReadMessage() {
  // The engine would refuse it when all of it has come.
  if (auto status = CheckNotDraining(context()); !status.ok()) return status;
  v1::GenerateWithStateRequest message;
  if (auto status = ParseMessage(in_, &message); !status.ok()) return status;
  in_.Clear();
  const bool first = reads_ == 1;
  if (message.has_generate() != first) {
    return first ? Refused(Reason::kValueMissing, "generate", "must be set in the first message")
                 : Refused(Reason::kValuesConflict, "generate",
                           "is set, may be in the first message only");
  }
  if (first) {
    message_ = std::move(*message.mutable_generate());
    if (message_.has_session()) {
      return Refused(Reason::kValuesConflict, "generate.session", "must not be set beside a state");
    }
    const auto model = FindModel(context().engine->models(), message_.model());
    if (!model.ok()) return model.status();
    model_ = *model;
    if (auto status = CheckInputSize(message_, **model, context().limits); !status.ok()) {
      return status;
    }
    // It waits for the snapshot as long as that takes.
    message_.DiscardUnknownFields();
    if (auto status = receiver_->Keep(message_.SpaceUsedLong()); !status.ok()) return status;
  }
  if (message_.has_conversation() && !message.chunk().empty()) {
    return Refused(Reason::kValuesConflict, "generate.conversation",
                   "stands before a snapshot, whose text is not known; must begin the context");
  }
  return receiver_->Add(message.chunk(), guard_.took());
}

void GenerateWithStateCall::OnMessage() {
  if (auto status = ReadMessage(); !status.ok()) return End(status);
  ReadNext();
}

void GenerateWithStateCall::OnLast() {
  // The end of the client's messages comes before its cancellation.
  if (broken_since()) return End(Refused(Reason::kCancelled, "the call was cancelled"));
  if (model_ == nullptr) {
    return End(Refused(Reason::kValueMissing, "generate", "there is no message"));
  }
  const v1::GenerateRequest message = std::move(message_);
  std::optional<StartPoint> start;
  if (!receiver_->empty()) {
    auto from = context().sessions->StartFrom(model_->name, receiver_->Take());
    if (!from.ok()) return End(from.status());
    start = *std::move(from);
  }
  ContextStart context_start{ContextStart::kUpload, 0};
  if (start) {
    context_start.position = start->position + static_cast<int64_t>(start->pending.size());
    context_start.answer_end = start->answer_end;
  }
  if (message.has_conversation()) {
    auto written = WriteConversation(message.conversation(), *model_, context().limits);
    if (!written.ok()) return End(written.status());
    context_start.conversation = std::move(written->ids);
  }
  auto request = ToRequest(message, *model_, context().limits, context_start);
  if (!request.ok()) return End(request.status());
  auto grammar = ToGrammar(message.sampling(), *model_);
  if (!grammar.ok()) return End(grammar.status());
  request->sampling.grammar = *std::move(grammar);
  output_ = GenerateOutput(model_->model->tokenizer(), request->sampling.logprobs.has_value());
  request->start = std::move(start);
  request->keep = true;
  if (auto status = Submit(*std::move(request)); !status.ok()) End(status);
}

absl::StatusOr<grpc::ByteBuffer> GenerateWithStateCall::ToMessage(const Backlog& backlog) {
  v1::GenerateWithStateResponse message;
  *message.mutable_generate() = output_.ToMessage(backlog);
  return SerializeMessage(message);
}

void GenerateWithStateCall::OnStart() {
  receiver_ = nullptr;  // others may send now
  StreamCall::OnStart();
}

void GenerateWithStateCall::Settle(const absl::Status& status, const Usage& usage) {
  context().session_tasks->Schedule(caller().sharer, [self = Held(this), status, usage] {
    if (!status.ok() || !self->end_) return self->Conclude(status, usage);
    auto tail = self->context().sessions->ToSnapshot(self->model_->name,
                                                     *std::exchange(self->end_, std::nullopt));
    if (!tail.ok()) return self->Conclude(tail.status(), usage);
    self->tail_bytes_ = (*tail)->total_bytes();
    self->sender_.Start(*std::move(tail));
    self->Conclude(status, usage);
  });
}

void GenerateWithStateCall::FinishCall(const absl::Status& status) {
  if (!status.ok()) return End(status);
  in_tail_ = true;
  context().session_tasks->Schedule(caller().sharer, [self = Held(this)] {
    self->ChooseChunks();
    self->SendNext();
  });
}

void GenerateWithStateCall::ChooseChunks() {
  chunk_bytes_ = std::min(kSnapshotChunkBytes, tail_bytes_);
  if (!TakeRoom(chunk_bytes_).ok()) chunk_bytes_ = kUncountedBytes;
}

void GenerateWithStateCall::SendNext() {
  auto message = sender_.Next<v1::GenerateWithStateResponse>(chunk_bytes_);
  if (!message.ok() || !*message) return End(message.status());
  sender_.Arm(context().stall_timeout, Held(this));
  WatchReader(2 * context().stall_timeout);
  rpc().Write(**message);
}

void GenerateWithStateCall::OnWritten(bool ok) {
  if (!in_tail_) return StreamCall::OnWritten(ok);
  ReaderTook();
  if (auto status = sender_.Written(ok); !status.ok()) return End(status);
  context().session_tasks->Schedule(caller().sharer, [self = Held(this)] { self->SendNext(); });
}

}  // namespace tvq
