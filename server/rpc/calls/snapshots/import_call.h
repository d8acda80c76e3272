#ifndef TVQ_SERVER_RPC_CALLS_SNAPSHOTS_IMPORT_CALL_H_
#define TVQ_SERVER_RPC_CALLS_SNAPSHOTS_IMPORT_CALL_H_

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
#include "server/rpc/wire/request_hash.h"

namespace tvq {

// One ImportSession call: the client sends a snapshot and gets one message. One chunk at a time:
// the next is read when the one before was taken.
//
// One thread at a time acts on the call: gRPC when a message has come, then the task that takes it.
// Only the guard comes between, and ends the call while a read is in flight.
class ImportCall : public grpc::ServerReadReactor<grpc::ByteBuffer>,
                   public std::enable_shared_from_this<ImportCall> {
 public:
  ImportCall(const CallContext& context, grpc::CallbackServerContext* rpc, grpc::ByteBuffer* out);

  // Once, before the reactor is returned.
  void Begin();

  void OnReadDone(bool ok) override;
  void OnDone() override;

 private:
  void ReadNext();
  void OnMessage();
  void OnLast();
  // Parses the message that came and returns its chunk, which may be empty.
  absl::StatusOr<std::string> ReadChunk(bool first);
  // Makes the session of what came.
  absl::Status Complete();
  // Of an admitted call: nothing was taken. `busy`: it may work later.
  void End(const absl::Status& status);

  const CallContext& context_;
  grpc::CallbackServerContext* const rpc_;
  grpc::ByteBuffer* const out_;
  CallScope scope_;
  std::shared_ptr<ImportCall> self_;  // gRPC's share; reset by its OnDone
  std::unique_ptr<SnapshotReceiver> receiver_;
  grpc::ByteBuffer message_;  // of the read in flight
  StallGuard guard_;
  int64_t reads_ = 0;      // begun
  CreateOptions options_;  // of the first message
  RequestHash hash_;       // of what came so far
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_SNAPSHOTS_IMPORT_CALL_H_
