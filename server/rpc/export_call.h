#ifndef TVQ_SERVER_RPC_EXPORT_CALL_H_
#define TVQ_SERVER_RPC_EXPORT_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/rpc/call_context.h"
#include "server/rpc/call_scope.h"
#include "server/rpc/stall_guard.h"
#include "tvq/v1/session.pb.h"

namespace tvq {

// One ExportSession call. One chunk at a time: the next is made when gRPC has taken the one before.
// A client that takes nothing for too long loses the stream, and what that holds.
//
// One thread at a time acts on the call: the task that opens it or sends, then gRPC when the write
// is done. Only the guard comes between, while a write is in flight, and takes the stream away.
class ExportCall : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                   public std::enable_shared_from_this<ExportCall> {
 public:
  ExportCall(const CallContext& context, grpc::CallbackServerContext* rpc);

  // Once, before the reactor is returned.
  void Begin(const grpc::ByteBuffer& request);

  void OnWriteDone(bool ok) override;
  void OnDone() override;

 private:
  void Open(const grpc::ByteBuffer& request);
  absl::Status ReadNext(v1::ExportSessionResponse* message);
  void SendNext();
  void DropStream();
  void Refuse(const absl::Status& status);
  void End(const absl::Status& status);

  const CallContext& context_;
  grpc::CallbackServerContext* const rpc_;
  CallScope scope_;
  std::shared_ptr<ExportCall> self_;  // gRPC's share; reset by its OnDone
  grpc::ByteBuffer message_;          // of the write in flight
  StallGuard guard_;
  bool first_ = true;

  absl::Mutex mutex_;
  std::unique_ptr<SnapshotStream> stream_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_EXPORT_CALL_H_
