#ifndef TVQ_SERVER_RPC_CALLS_SNAPSHOTS_UPLOAD_CALL_H_
#define TVQ_SERVER_RPC_CALLS_SNAPSHOTS_UPLOAD_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/rpc/calls/call_context.h"
#include "server/rpc/calls/call_scope.h"
#include "server/rpc/calls/snapshots/snapshot_receiver.h"
#include "server/rpc/limits/stall_guard.h"

namespace tvq {

// A call in which the client sends a snapshot and gets one message. One chunk at a time: the next
// is read when the one before was taken.
//
// One thread at a time acts on the call: gRPC when a message has come, then the task that takes it.
// Only the guard comes between, and ends the call while a read is in flight.
class UploadCall : public grpc::ServerReadReactor<grpc::ByteBuffer>,
                   public std::enable_shared_from_this<UploadCall> {
 public:
  UploadCall(const CallContext& context, const MethodInfo& method, grpc::CallbackServerContext* rpc,
             grpc::ByteBuffer* out)
      : context_(context), rpc_(rpc), out_(out), scope_(context, method, rpc) {}

  // Once, before the reactor is returned.
  void Begin();

  void OnReadDone(bool ok) override;
  void OnDone() override;

 protected:
  // Parses a message and returns its chunk, which may be empty.
  // May block.
  virtual absl::StatusOr<std::string> Read(const grpc::ByteBuffer& bytes, bool first) = 0;
  // After the last message. May block.
  virtual absl::StatusOr<grpc::ByteBuffer> Complete(std::unique_ptr<SnapshotUpload> upload) = 0;

  const CallContext& context() const { return context_; }
  // Known when Read is called.
  const Caller& caller() const { return scope_.caller(); }

 private:
  void ReadNext();
  void OnMessage();
  void OnLast();
  // Of an admitted call: nothing was taken. `busy`: it may work later.
  void Refuse(const absl::Status& status, bool busy);

  const CallContext& context_;
  grpc::CallbackServerContext* const rpc_;
  grpc::ByteBuffer* const out_;
  CallScope scope_;
  std::shared_ptr<UploadCall> self_;  // gRPC's share; reset by its OnDone
  std::unique_ptr<SnapshotReceiver> receiver_;
  grpc::ByteBuffer message_;  // of the read in flight
  StallGuard guard_;
  int64_t reads_ = 0;  // begun
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_SNAPSHOTS_UPLOAD_CALL_H_
