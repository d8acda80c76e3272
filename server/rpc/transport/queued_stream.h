// Calls whose server streams, over the queue of a writer.
#ifndef TVQ_SERVER_RPC_TRANSPORT_QUEUED_STREAM_H_
#define TVQ_SERVER_RPC_TRANSPORT_QUEUED_STREAM_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include <memory>

#include "server/rpc/transport/stream_writer.h"

namespace tvq {

class QueuedStream;

// A call that gRPC gives, or is to give next.
class QueuedRpc {
 public:
  explicit QueuedRpc(StreamWriter* writer);
  QueuedRpc(const QueuedRpc&) = delete;
  QueuedRpc& operator=(const QueuedRpc&) = delete;

  StreamWriter* const writer;
  grpc::ServerContext context;
  grpc::ByteBuffer request;
  grpc::ServerAsyncWriter<grpc::ByteBuffer> stream{&context};

 private:
  friend class QueuedStream;

  // When the client is gone, or has its status.
  class Closed final : public QueueTag {
   public:
    void Proceed(bool ok) override;
    QueuedStream* stream = nullptr;  // from its beginning on
  };

  Closed closed_;
};

// What grpc::ServerWriteReactor is to calls with callbacks; but gRPC's threads have no part in it:
// what they would call, the writer's thread does.
class QueuedStream {
 public:
  virtual ~QueuedStream() = default;

  virtual void OnSendInitialMetadataDone(bool ok) = 0;
  virtual void OnWriteDone(bool ok) = 0;
  virtual void OnCancel() = 0;
  virtual void OnDone() = 0;

 protected:
  // On the writer's thread, right when the call has come.
  explicit QueuedStream(std::unique_ptr<QueuedRpc> rpc);

  QueuedRpc& queued() { return *rpc_; }

  // One of them at a time, Finish last. A message must stay until the write is done.
  void StartSendInitialMetadata();
  void StartWrite(const grpc::ByteBuffer* message);
  void StartWriteAndFinish(const grpc::ByteBuffer* message, const grpc::WriteOptions& options,
                           const grpc::Status& status);
  void Finish(const grpc::Status& status);

 private:
  friend class QueuedRpc;

  class Tag final : public QueueTag {
   public:
    Tag(QueuedStream* stream, void (QueuedStream::*done)(bool)) : stream_(stream), done_(done) {}
    void Proceed(bool ok) override { (stream_->*done_)(ok); }

   private:
    QueuedStream* const stream_;
    void (QueuedStream::* const done_)(bool);
  };

  void OnClosed();
  void OnFinished(bool);
  void EndWhenBoth();

  const std::unique_ptr<QueuedRpc> rpc_;
  Tag headers_{this, &QueuedStream::OnSendInitialMetadataDone};
  Tag write_{this, &QueuedStream::OnWriteDone};
  Tag finish_{this, &QueuedStream::OnFinished};
  // The writer's thread.
  bool is_closed_ = false;
  bool is_finished_ = false;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_TRANSPORT_QUEUED_STREAM_H_
