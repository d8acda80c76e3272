// Calls over completion queues.
#ifndef TVQ_SERVER_RPC_TRANSPORT_RPC_H_
#define TVQ_SERVER_RPC_TRANSPORT_RPC_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <atomic>

#include "server/rpc/transport/call_thread.h"

namespace tvq {

// What an rpc tells of itself, on its thread.
class RpcListener {
 public:
  virtual void OnRead(bool /*ok*/) {}     // not ok: the client sends nothing more
  virtual void OnWritten(bool /*ok*/) {}  // or the headers are sent
  virtual void OnCancel() {}
  virtual void OnDone() = 0;  // last; the rpc may be deleted

 protected:
  ~RpcListener() = default;
};

// A call that gRPC gives, or is to give next. The client and the server may both stream: to gRPC
// that comprises all other methods. Any thread.
class Rpc {
 public:
  explicit Rpc(CallThread* thread);
  Rpc(const Rpc&) = delete;
  Rpc& operator=(const Rpc&) = delete;

  CallThread* const thread;
  grpc::ServerContext context;
  grpc::ByteBuffer request;  // of a method that has one
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream{&context};

  // On the rpc's thread, right when the call has come.
  void Begin(RpcListener* listener) { listener_ = listener; }

  // One read at a time, and beside it one of the other operations. These use `message` only until
  // they return. The last one is Finish, which ends a read, or WriteAndFinish.
  void Read(grpc::ByteBuffer* message);
  void SendHeaders();
  void Write(const grpc::ByteBuffer& message);
  void WriteAndFinish(const grpc::ByteBuffer& message, const grpc::Status& status);
  void Finish(const grpc::Status& status);

 private:
  enum class Event { kRead, kWritten, kFinished, kClosed };  // closed: gone, or has the status

  class Tag final : public QueueTag {
   public:
    Tag(Rpc* rpc, Event event) : rpc_(rpc), event_(event) {}
    void Proceed(bool ok) override { rpc_->Came(event_, ok); }

   private:
    Rpc* const rpc_;
    const Event event_;
  };

  void Came(Event event, bool ok);
  // Tells the listener, and counts the event.
  void Told(Event event, bool ok);

  RpcListener* listener_ = nullptr;
  std::atomic<int> to_come_ = 2;  // events: these two in any case, and those of reads and writes
  Tag finished_{this, Event::kFinished};
  Tag closed_{this, Event::kClosed};
  Tag read_{this, Event::kRead};
  Tag written_{this, Event::kWritten};
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_TRANSPORT_RPC_H_
