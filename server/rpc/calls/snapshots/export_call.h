#ifndef TVQ_SERVER_RPC_CALLS_SNAPSHOTS_EXPORT_CALL_H_
#define TVQ_SERVER_RPC_CALLS_SNAPSHOTS_EXPORT_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "server/rpc/calls/call_context.h"
#include "server/rpc/calls/call_scope.h"
#include "server/rpc/calls/snapshots/snapshot_sender.h"
#include "server/rpc/limits/byte_quota.h"
#include "server/rpc/limits/reader_guard.h"

namespace tvq {

// One ExportSession call. One thread at a time acts on it: the task that opens it or sends, then
// gRPC when a write is done.
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
  // Makes room for what the stream keeps and one chunk; also when it has some already.
  absl::Status TakeRoom(int64_t kept, int64_t total);
  void SendNext();
  void End(const absl::Status& status);

  const CallContext& context_;
  CallScope scope_;
  std::shared_ptr<ExportCall> self_;  // gRPC's share; reset by its OnDone
  grpc::ByteBuffer message_;          // of the write in flight
  SnapshotSender sender_;
  ByteQuota::Share room_;  // of the chunk that is made or in flight, and of what the stream keeps
  ReaderGuard reader_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_SNAPSHOTS_EXPORT_CALL_H_
