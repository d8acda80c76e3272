#ifndef TVQ_SERVER_RPC_CALLS_SCORE_CALL_H_
#define TVQ_SERVER_RPC_CALLS_SCORE_CALL_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "server/rpc/calls/request_call.h"
#include "tvq/v1/generation.pb.h"

namespace tvq {

// One Score call: a request that only reads its prompt.
class ScoreCall : public RequestCall {
 public:
  using RequestCall::RequestCall;

 protected:
  absl::Status Parse(const grpc::ByteBuffer& bytes) override;
  const v1::SessionCall* SessionField() const override;
  uint64_t CallHash() const override { return HashOfCall(message_); }
  absl::StatusOr<Request> Convert(SessionUse* session) override;
  void Filter(int64_t first, std::vector<TokenEvent>* events) override;
  absl::StatusOr<grpc::ByteBuffer> ToMessage(const Backlog& backlog) override;
  void KeepPrompt(const std::vector<TokenEvent>& events) override;
  std::optional<std::string> Reply(const Usage& usage,
                                   const v1::SessionPosition& position) override;
  absl::StatusOr<grpc::ByteBuffer> Replay(const std::string& reply,
                                          int64_t persisted_version) override;

 private:
  // The last message.
  void Summarize(v1::ScoreResponse* message);

  v1::ScoreRequest message_;  // until it was converted

  // Set by Convert, constant from then on.
  const Tokenizer* tokenizer_ = nullptr;
  int64_t before_ = 0;  // ids that are fed before the input
  bool summary_only_ = false;
  int64_t tokens_ = 0;  // of the input
  int64_t scored_tokens_ = 0;
  int64_t bytes_ = 0;  // of the tokens that are scored
  int64_t unknown_tokens_ = 0;

  // For a retry: what was sent, on the loop; then the task that commits.
  v1::ScoreResponse kept_;
  size_t kept_bytes_ = 0;

  Mutex sum_mutex_;
  double total_logprob_ ABSL_GUARDED_BY(sum_mutex_) = 0;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_SCORE_CALL_H_
