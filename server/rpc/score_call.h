#ifndef TVQ_SERVER_RPC_SCORE_CALL_H_
#define TVQ_SERVER_RPC_SCORE_CALL_H_

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/rpc/stream_call.h"

namespace tvq {

// One Score call: a request that only reads its prompt.
class ScoreCall : public StreamCall {
 public:
  using StreamCall::StreamCall;

 protected:
  const MethodInfo& Method() const override;
  absl::StatusOr<Request> Read(const grpc::ByteBuffer& bytes) override;
  void Filter(int64_t first, std::vector<TokenEvent>* events) override;
  absl::StatusOr<grpc::ByteBuffer> ToMessage(const Backlog& backlog) override;

 private:
  // Set by Read, constant from then on.
  const Tokenizer* tokenizer_ = nullptr;
  bool prepend_eos_ = false;
  bool summary_only_ = false;
  int64_t tokens_ = 0;  // of the input
  int64_t bytes_ = 0;

  absl::Mutex sum_mutex_;
  double total_logprob_ ABSL_GUARDED_BY(sum_mutex_) = 0;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_SCORE_CALL_H_
