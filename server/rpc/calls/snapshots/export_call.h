#ifndef TVQ_SERVER_RPC_CALLS_SNAPSHOTS_EXPORT_CALL_H_
#define TVQ_SERVER_RPC_CALLS_SNAPSHOTS_EXPORT_CALL_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>

#include "absl/status/status.h"
#include "server/rpc/calls/call.h"
#include "server/rpc/calls/snapshots/snapshot_sender.h"

namespace tvq {

// One ExportSession call. One thread at a time acts on it: the task that opens it or sends, then
// the rpc's when a write is done.
class ExportCall : public Call {
 public:
  using Call::Call;

  void Begin() override;

  void OnWritten(bool ok) override;

 private:
  void LetGo() override { sender_.Drop(); }
  void Open(const grpc::ByteBuffer& request);
  // Makes room for what the stream keeps and one chunk; also when it has some already.
  absl::Status MakeRoom(int64_t kept, int64_t total);
  void SendNext();

  SnapshotSender sender_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_SNAPSHOTS_EXPORT_CALL_H_
