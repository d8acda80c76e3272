#ifndef TVQ_SERVER_RPC_CALLS_APPEND_CALL_H_
#define TVQ_SERVER_RPC_CALLS_APPEND_CALL_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/rpc/calls/engine_call.h"
#include "server/rpc/calls/session_use.h"

namespace tvq {

// One AppendSession call: a task takes the session's lease and submits a request that only feeds
// tokens, the engine computes, another task commits.
class AppendCall : public EngineCall {
 public:
  using EngineCall::EngineCall;

  void Begin() override;

  void OnKept(Continuation end) override { session_->Keep(std::move(end)); }
  void OnEnd(const absl::Status& status, const Usage& usage) override;

 private:
  void LetGo() override { session_ = nullptr; }
  void Open(const grpc::ByteBuffer& request);
  void Replay(const std::string& reply);
  absl::Status Feed(Request request);
  void Commit();

  std::unique_ptr<SessionUse> session_;
  int64_t tokens_ = 0;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_APPEND_CALL_H_
