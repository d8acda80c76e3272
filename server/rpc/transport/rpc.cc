#include "server/rpc/transport/rpc.h"

namespace tvq {

Rpc::Rpc(CallThread* thread) : thread(thread) {
  context.AsyncNotifyWhenDone(static_cast<QueueTag*>(&closed_));
}

void Rpc::Read(grpc::ByteBuffer* message) {
  ++to_come_;
  stream.Read(message, static_cast<QueueTag*>(&read_));
}

void Rpc::SendHeaders() {
  ++to_come_;
  stream.SendInitialMetadata(static_cast<QueueTag*>(&written_));
}

void Rpc::Write(const grpc::ByteBuffer& message) {
  ++to_come_;
  stream.Write(message, static_cast<QueueTag*>(&written_));
}

void Rpc::WriteAndFinish(const grpc::ByteBuffer& message, const grpc::Status& status) {
  stream.WriteAndFinish(message, grpc::WriteOptions(), status, static_cast<QueueTag*>(&finished_));
}

void Rpc::Finish(const grpc::Status& status) {
  stream.Finish(status, static_cast<QueueTag*>(&finished_));
}

void Rpc::Came(Event event, bool ok) {
  // If a call is cancelled, gRPC may report the failed read before the cancellation. So what has
  // arrived by now is handled first: a cancellation must not look like the end of the messages.
  if (event == Event::kRead && !ok) {
    thread->Add([this] { Told(Event::kRead, false); });
    thread->Ring();
    return;
  }
  Told(event, ok);
}

void Rpc::Told(Event event, bool ok) {
  switch (event) {
    case Event::kRead:
      listener_->OnRead(ok);
      break;
    case Event::kWritten:
      listener_->OnWritten(ok);
      break;
    case Event::kClosed:
      if (context.IsCancelled()) listener_->OnCancel();
      break;
    case Event::kFinished:
      break;
  }
  if (--to_come_ > 0) return;
  CallThread* const its_thread = thread;
  listener_->OnDone();
  its_thread->EndCall();
}

}  // namespace tvq
