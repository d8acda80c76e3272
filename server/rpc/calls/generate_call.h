#ifndef TVQ_SERVER_RPC_CALLS_GENERATE_CALL_H_
#define TVQ_SERVER_RPC_CALLS_GENERATE_CALL_H_

#include <optional>
#include <string>
#include <vector>

#include "models/runtime/text/conversation_writer.h"
#include "server/rpc/calls/generate_output.h"
#include "server/rpc/calls/request_call.h"

namespace tvq {

// One Generate call.
class GenerateCall : public RequestCall {
 public:
  using RequestCall::RequestCall;

 protected:
  absl::Status Parse(const grpc::ByteBuffer& bytes) override;
  const v1::SessionCall* SessionField() const override;
  uint64_t CallHash() const override { return HashOfCall(message_); }
  size_t SlowWork(size_t bytes) const override;
  absl::Status PrepareToConvert(const SessionUse* session) override;
  absl::StatusOr<Request> Convert(SessionUse* session) override;
  absl::StatusOr<grpc::ByteBuffer> ToMessage(const Backlog& backlog) override;
  void KeepPrompt(const std::vector<TokenEvent>& events) override {
    if (keeps_reply()) output_.Keep(events);
  }
  void KeepDelta(const Delta& delta) override {
    if (keeps_reply()) output_.Keep(delta);
  }
  std::optional<std::string> Reply(const Usage& usage,
                                   const v1::SessionPosition& position) override {
    return output_.Kept(usage, position);
  }
  absl::StatusOr<grpc::ByteBuffer> Replay(const std::string& reply,
                                          int64_t persisted_version) override;

 private:
  v1::GenerateRequest message_;  // until it was converted
  // From PrepareToConvert to Convert.
  Conversation conversation_;
  std::shared_ptr<const Grammar> grammar_;
  GenerateOutput output_;  // set by Convert
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_GENERATE_CALL_H_
