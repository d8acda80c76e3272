#ifndef TVQ_SERVER_RPC_CALLS_ENCODE_CALL_H_
#define TVQ_SERVER_RPC_CALLS_ENCODE_CALL_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/rpc/calls/engine_call.h"
#include "tvq/v1/generation.pb.h"

namespace tvq {

// One Encode call: a request whose output comes in one piece.
class EncodeCall : public EngineCall {
 public:
  EncodeCall(const CallContext& context, const MethodInfo& method, std::unique_ptr<Rpc> rpc)
      : EngineCall(context, method, std::move(rpc), context.vectors) {}

  // Reads the request and submits it, here or on a worker.
  void Begin() override;

  void OnEncoded(std::vector<float> vectors) override { vectors_ = std::move(vectors); }
  void OnEnd(const absl::Status& status, const Usage& usage) override;

 private:
  void Open(const grpc::ByteBuffer& bytes);
  absl::Status Ask(const v1::EncodeRequest& message);
  void AnswerVectors(int64_t tokens);

  int64_t width_ = 0;           // constant once submitted
  std::vector<float> vectors_;  // the loop's, then the worker's that answers
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_ENCODE_CALL_H_
