#ifndef TVQ_SERVER_RPC_CALLS_SNAPSHOTS_GENERATE_WITH_STATE_CALL_H_
#define TVQ_SERVER_RPC_CALLS_SNAPSHOTS_GENERATE_WITH_STATE_CALL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "server/rpc/calls/generate_output.h"
#include "server/rpc/calls/snapshots/snapshot_receiver.h"
#include "server/rpc/calls/snapshots/snapshot_sender.h"
#include "server/rpc/calls/stream_call.h"
#include "server/rpc/limits/stall_guard.h"
#include "tvq/v1/generation.pb.h"

namespace tvq {

// One GenerateWithState call: it reads a request and a snapshot, generates as Generate does, and
// sends the snapshot of what came of it. One chunk at a time in either direction; a client that
// lets one wait for too long loses the call.
class GenerateWithStateCall : public StreamCall {
 public:
  using StreamCall::StreamCall;

  void Begin() override;

  void OnRead(bool ok) override;
  void OnWritten(bool ok) override;
  void OnStart() override;
  void OnKept(Continuation end) override { end_ = std::move(end); }

 protected:
  absl::StatusOr<grpc::ByteBuffer> ToMessage(const Backlog& backlog) override;
  void Settle(const absl::Status& status, const Usage& usage) override;
  bool HasTail() const override { return true; }
  void FinishCall(const absl::Status& status) override;

 private:
  void LetGo() override {
    receiver_ = nullptr;
    sender_.Drop();
  }
  // The way in.
  void ReadNext();
  void OnMessage();
  absl::Status ReadMessage();
  void OnLast();
  // The way out.
  // As large as there is room for. What was generated is not lost for want of it: small ones need
  // none.
  void ChooseChunks();
  void SendNext();

  StallGuard guard_;  // of the read in flight

  // One thread at a time: the rpc's when a message has come, then the task that takes it; the task
  // that makes the tail.
  std::unique_ptr<SnapshotReceiver> receiver_;
  grpc::ByteBuffer in_;          // of the read in flight
  int64_t reads_ = 0;            // begun
  v1::GenerateRequest message_;  // until it was converted
  const ServedModel* model_ = nullptr;
  GenerateOutput output_;
  std::optional<Continuation> end_;

  // One thread at a time: the task that makes the tail, then the one that sends, then gRPC when
  // that is written.
  int64_t tail_bytes_ = 0;   // of all of it
  int64_t chunk_bytes_ = 0;  // of a message, at most
  std::atomic<bool> in_tail_ = false;
  SnapshotSender sender_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_SNAPSHOTS_GENERATE_WITH_STATE_CALL_H_
