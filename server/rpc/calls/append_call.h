#ifndef TVQ_SERVER_RPC_CALLS_APPEND_CALL_H_
#define TVQ_SERVER_RPC_CALLS_APPEND_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/engine/request/request.h"
#include "server/rpc/calls/call_context.h"
#include "server/rpc/calls/engine_request.h"
#include "server/rpc/calls/session_use.h"
#include "server/rpc/calls/unary_reactor.h"
#include "tvq/v1/session.pb.h"

namespace tvq {

// One AppendSession call: a task takes the session's lease and submits a request that only feeds
// tokens, the engine computes, another task commits. Held by gRPC until its OnDone and by the
// engine until the sink's OnEnd, whichever is later.
class AppendCall : public UnaryReactor, public RequestSink {
 public:
  AppendCall(const CallContext& context, grpc::CallbackServerContext* rpc, grpc::ByteBuffer* out);

  // Once, before the reactor is returned.
  void Begin(const grpc::ByteBuffer& request);

  // gRPC's side.
  void OnCancel() override { in_engine_.Cancel(); }

  // The engine's side.
  void OnPrompt(int64_t, std::vector<TokenEvent>) override {}
  void OnDelta(Delta) override {}
  void OnKept(Continuation end) override { session_->Keep(std::move(end)); }
  void OnEnd(const absl::Status& status, const Usage& usage) override;

 private:
  std::shared_ptr<AppendCall> Self() {
    return std::static_pointer_cast<AppendCall>(shared_from_this());
  }
  void Open(const grpc::ByteBuffer& request);
  void Replay(const std::string& reply);
  void Submit(Request request);
  void Commit();
  // Lets go of the session, before the client hears of it and tries again.
  void Fail(const absl::Status& status);
  void Reply(const v1::AppendSessionResponse& response);

  std::unique_ptr<SessionUse> session_;
  int64_t tokens_ = 0;
  EngineRequest in_engine_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_APPEND_CALL_H_
