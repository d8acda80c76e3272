#ifndef TVQ_SERVER_RPC_APPEND_CALL_H_
#define TVQ_SERVER_RPC_APPEND_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/request.h"
#include "server/rpc/call_context.h"
#include "server/rpc/call_scope.h"
#include "server/rpc/session_use.h"

namespace tvq {

// One AppendSession call: a task takes the session's lease and submits a request that only feeds
// tokens, the engine computes, another task commits. Held by gRPC until its OnDone and by the
// engine until the sink's, whichever is later.
class AppendCall : public grpc::ServerUnaryReactor,
                   public RequestSink,
                   public std::enable_shared_from_this<AppendCall> {
 public:
  AppendCall(const CallContext& context, grpc::CallbackServerContext* rpc, grpc::ByteBuffer* out);

  // Once, before the reactor is returned.
  void Begin(const grpc::ByteBuffer& request);

  // gRPC's side.
  void OnCancel() override;
  void OnDone() override;

  // The engine's side.
  void OnPrompt(int64_t, std::vector<TokenEvent>) override {}
  void OnDelta(Delta) override {}
  void OnKept(Continuation end) override { session_->Keep(std::move(end)); }
  void OnDone(const absl::Status& status, const Usage& usage) override;

 private:
  void Open(const grpc::ByteBuffer& request);
  void Replay(const std::string& reply);
  void Submit(Request request);
  void Commit();
  void Refuse(const absl::Status& status);
  void End(const absl::Status& status);

  const CallContext& context_;
  grpc::CallbackServerContext* const rpc_;
  grpc::ByteBuffer* const out_;
  CallScope scope_;
  std::shared_ptr<AppendCall> self_;  // gRPC's share; reset by its OnDone
  std::unique_ptr<SessionUse> session_;
  int64_t tokens_ = 0;

  absl::Mutex mutex_;
  RequestHandle handle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_APPEND_CALL_H_
