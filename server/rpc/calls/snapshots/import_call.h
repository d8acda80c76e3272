#ifndef TVQ_SERVER_RPC_CALLS_SNAPSHOTS_IMPORT_CALL_H_
#define TVQ_SERVER_RPC_CALLS_SNAPSHOTS_IMPORT_CALL_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/rpc/calls/call.h"
#include "server/rpc/calls/snapshots/snapshot_receiver.h"
#include "server/rpc/limits/stall_guard.h"
#include "server/rpc/wire/request_hash.h"
#include "tvq/v1/session.pb.h"

namespace tvq {

// One ImportSession call: the client sends a snapshot and gets one message. One chunk at a time:
// the next is read when the one before was taken.
//
// One thread at a time acts on the call: the rpc's when a message has come, then the task that
// takes it. Only the guard comes between, and ends the call while a read is in flight.
class ImportCall : public Call {
 public:
  using Call::Call;

  void Begin() override;

  void OnRead(bool ok) override;

 private:
  void LetGo() override { receiver_ = nullptr; }
  void ReadNext();
  void OnMessage();
  void OnLast();
  // Parses the message that came and returns its chunk, which may be empty.
  absl::StatusOr<std::string> ReadChunk(bool first);
  // Makes the session of what came.
  absl::StatusOr<v1::ImportSessionResponse> Complete();

  std::unique_ptr<SnapshotReceiver> receiver_;
  grpc::ByteBuffer message_;  // of the read in flight
  StallGuard guard_;
  int64_t reads_ = 0;      // begun
  CreateOptions options_;  // of the first message
  RequestHash hash_;       // of what came so far
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_SNAPSHOTS_IMPORT_CALL_H_
