#ifndef TVQ_SERVER_RPC_CALLS_SNAPSHOTS_SNAPSHOT_SENDER_H_
#define TVQ_SERVER_RPC_CALLS_SNAPSHOTS_SNAPSHOT_SENDER_H_

#include <grpcpp/support/byte_buffer.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/refusal.h"
#include "server/rpc/limits/stall_guard.h"
#include "server/rpc/wire/wire.h"
#include "server/sessions/session_store.h"

namespace tvq {

// A snapshot on its way out, in messages with the fields `chunk` and, in the first, `total_bytes`.
// The next message is made when gRPC has taken the one before. If the client takes nothing for too
// long, the snapshot is dropped, and what it holds is freed. If the client then takes something
// after all, it gets an error that says so, unless the call's ReaderGuard has ended the call.
//
// One thread at a time: the task that makes a message, then gRPC when that is written. Only the
// guard comes between, while a write is in flight, and takes the snapshot away.
class SnapshotSender {
 public:
  void Start(std::unique_ptr<SnapshotStream> stream) {
    const MutexLock lock(&mutex_);
    stream_ = std::move(stream);
  }

  // With at most `max_bytes` of the snapshot. Nothing at the end, and without a snapshot. Blocks.
  template <typename Message>
  absl::StatusOr<std::optional<grpc::ByteBuffer>> Next(int64_t max_bytes) {
    const MutexLock lock(&mutex_);  // no other thread wants it now
    if (stream_ == nullptr) return std::nullopt;
    auto chunk = stream_->Next(max_bytes);
    if (!chunk.ok()) return chunk.status();
    if (chunk->empty()) return std::nullopt;
    Message message;
    message.set_chunk(*std::move(chunk));
    if (std::exchange(first_, false)) message.set_total_bytes(stream_->total_bytes());
    auto bytes = SerializeMessage(message);
    if (!bytes.ok()) return bytes.status();
    return std::optional(*std::move(bytes));
  }

  // Before the message is written; `call` is kept as long as the guard needs this.
  void Arm(std::chrono::milliseconds timeout, std::shared_ptr<void> call) {
    timeout_ = timeout;
    guard_.Arm(timeout, [this, call = std::move(call)] { Drop(); });
  }

  // When it is written, `ok` or not: OK, or how the call ends.
  absl::Status Written(bool ok) {
    if (!guard_.Disarm()) return Stalled(timeout_);
    return ok ? absl::OkStatus() : Refused(Reason::kCancelled, "the client is gone");
  }

  void Drop() {
    const MutexLock lock(&mutex_);
    stream_ = nullptr;
  }

 private:
  StallGuard guard_;
  std::chrono::milliseconds timeout_{};
  bool first_ = true;
  Mutex mutex_;
  std::unique_ptr<SnapshotStream> stream_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_SNAPSHOTS_SNAPSHOT_SENDER_H_
