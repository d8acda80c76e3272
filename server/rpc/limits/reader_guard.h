#ifndef TVQ_SERVER_RPC_LIMITS_READER_GUARD_H_
#define TVQ_SERVER_RPC_LIMITS_READER_GUARD_H_

#include <grpcpp/server_context.h>

#include <chrono>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "server/rpc/limits/stall_guard.h"

namespace tvq {

// Cancels a call whose client does not take what is being written. Nothing milder helps: gRPC sends
// no status while a write is in flight, and waits as long as the client answers pings. Arm, Disarm
// and Done: one thread at a time.
class ReaderGuard {
 public:
  explicit ReaderGuard(grpc::ServerContextBase* rpc) : rpc_(rpc) {}

  // Before the write; `call`, which holds this, is kept meanwhile. Unless Disarm comes first, the
  // call is cancelled when the time has passed, and the write fails.
  void Arm(std::chrono::milliseconds timeout, std::shared_ptr<void> call) {
    guard_.Arm(timeout, [this, call = std::move(call)] { Cancel(); });
  }
  void Disarm() { guard_.Disarm(); }

  // When gRPC is done with the call, whose context is then no more.
  void Done() {
    guard_.Disarm();
    const MutexLock lock(&mutex_);
    rpc_ = nullptr;
  }

 private:
  void Cancel() {
    const MutexLock lock(&mutex_);
    if (rpc_ != nullptr) rpc_->TryCancel();
  }

  StallGuard guard_;
  Mutex mutex_;
  grpc::ServerContextBase* rpc_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LIMITS_READER_GUARD_H_
