#include "server/rpc/transport/queued_stream.h"

#include <utility>

namespace tvq {

QueuedRpc::QueuedRpc(StreamWriter* writer) : writer(writer) {
  context.AsyncNotifyWhenDone(static_cast<QueueTag*>(&closed_));
}

void QueuedRpc::Closed::Proceed(bool) { stream->OnClosed(); }

QueuedStream::QueuedStream(std::unique_ptr<QueuedRpc> rpc) : rpc_(std::move(rpc)) {
  rpc_->closed_.stream = this;
}

void QueuedStream::StartSendInitialMetadata() {
  rpc_->stream.SendInitialMetadata(static_cast<QueueTag*>(&headers_));
}

void QueuedStream::StartWrite(const grpc::ByteBuffer* message) {
  rpc_->stream.Write(*message, static_cast<QueueTag*>(&write_));
}

void QueuedStream::StartWriteAndFinish(const grpc::ByteBuffer* message,
                                       const grpc::WriteOptions& options,
                                       const grpc::Status& status) {
  rpc_->stream.WriteAndFinish(*message, options, status, static_cast<QueueTag*>(&finish_));
}

void QueuedStream::Finish(const grpc::Status& status) {
  rpc_->stream.Finish(status, static_cast<QueueTag*>(&finish_));
}

void QueuedStream::OnClosed() {
  is_closed_ = true;
  if (rpc_->context.IsCancelled()) OnCancel();
  EndWhenBoth();
}

void QueuedStream::OnFinished(bool) {
  is_finished_ = true;
  EndWhenBoth();
}

void QueuedStream::EndWhenBoth() {
  if (is_closed_ && is_finished_) OnDone();
}

}  // namespace tvq
