#ifndef TVQ_SERVER_RPC_EXPORT_CALL_H_
#define TVQ_SERVER_RPC_EXPORT_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/rpc/call_context.h"
#include "server/rpc/call_scope.h"
#include "server/rpc/stall_alarm.h"

namespace tvq {

// One ExportSession call. One chunk at a time: the next is made when gRPC has taken the one before.
// A client that takes nothing for too long loses the stream, and what that holds.
//
// One thread at a time acts on the call: the task that opens it or sends, then gRPC when the write
// is done. Only the alarm comes between, and touches nothing unless a write is in flight.
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
  void SendNext();
  void OnStall(int64_t write);
  void Refuse(const absl::Status& status);
  void End(const absl::Status& status);

  const CallContext& context_;
  grpc::CallbackServerContext* const rpc_;
  CallScope scope_;
  std::shared_ptr<ExportCall> self_;        // gRPC's share; reset by its OnDone
  std::unique_ptr<SnapshotStream> stream_;  // while a write is in flight under mutex_
  grpc::ByteBuffer message_;                // of the write in flight
  StallAlarm alarm_;
  int64_t writes_ = 0;  // begun

  absl::Mutex mutex_;
  int64_t in_flight_ ABSL_GUARDED_BY(mutex_) = 0;  // number of the write; 0: none
  bool stalled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_EXPORT_CALL_H_
