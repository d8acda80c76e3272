#ifndef TVQ_SERVER_RPC_CALLS_ENCODE_CALL_H_
#define TVQ_SERVER_RPC_CALLS_ENCODE_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "server/engine/request/request.h"
#include "server/rpc/calls/call_context.h"
#include "server/rpc/calls/engine_request.h"
#include "server/rpc/calls/unary_reactor.h"
#include "tvq/v1/generation.pb.h"

namespace tvq {

// One Encode call: a request whose output comes in one piece. Held by gRPC until its OnDone and by
// the engine until the sink's OnEnd.
class EncodeCall : public UnaryReactor, public RequestSink {
 public:
  // gRPC keeps `out` until Finish.
  EncodeCall(const CallContext& context, grpc::CallbackServerContext* rpc, grpc::ByteBuffer* out);

  // Reads the request and submits it, here or on a worker. Once, before the reactor is returned.
  void Begin(const grpc::ByteBuffer& in);

  // gRPC's side.
  void OnCancel() override { in_engine_.Cancel(); }

  // The engine's side.
  void OnPrompt(int64_t, std::vector<TokenEvent>) override {}
  void OnDelta(Delta) override {}
  void OnEncoded(std::vector<float> vectors) override { vectors_ = std::move(vectors); }
  void OnEnd(const absl::Status& status, const Usage& usage) override;

 private:
  std::shared_ptr<EncodeCall> Self() {
    return std::static_pointer_cast<EncodeCall>(shared_from_this());
  }
  void Open(const grpc::ByteBuffer& bytes);
  absl::Status Submit(const v1::EncodeRequest& message);
  void AnswerVectors(int64_t tokens);

  int64_t width_ = 0;           // constant once submitted
  std::vector<float> vectors_;  // the loop's, then the worker's that answers
  EngineRequest in_engine_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_ENCODE_CALL_H_
