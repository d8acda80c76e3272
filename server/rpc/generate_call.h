#ifndef TVQ_SERVER_RPC_GENERATE_CALL_H_
#define TVQ_SERVER_RPC_GENERATE_CALL_H_

#include <vector>

#include "server/rpc/stream_call.h"

namespace tvq {

// One Generate call.
class GenerateCall : public StreamCall {
 public:
  using StreamCall::StreamCall;

 protected:
  const MethodInfo& Method() const override;
  absl::StatusOr<Request> Read(const grpc::ByteBuffer& bytes) override;
  void Filter(int64_t, std::vector<TokenEvent>*) override {}
  absl::StatusOr<grpc::ByteBuffer> ToMessage(const Backlog& backlog) override;

 private:
  // Set by Read, constant from then on.
  const Tokenizer* tokenizer_ = nullptr;
  bool logprobs_ = false;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_GENERATE_CALL_H_
