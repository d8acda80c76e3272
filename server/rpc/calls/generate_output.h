#ifndef TVQ_SERVER_RPC_CALLS_GENERATE_OUTPUT_H_
#define TVQ_SERVER_RPC_CALLS_GENERATE_OUTPUT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/rpc/calls/session_use.h"
#include "server/rpc/calls/stream_call.h"
#include "tvq/v1/generation.pb.h"

namespace tvq {

// What a request that generates sends, as messages.
class GenerateOutput {
 public:
  GenerateOutput() = default;
  // `logprobs`: the request asked for them. `reread`: Usage.reread_tokens.
  GenerateOutput(const Tokenizer& tokenizer, bool logprobs, int64_t reread = 0)
      : tokenizer_(&tokenizer), logprobs_(logprobs), reread_(reread) {}

  v1::GenerateResponse ToMessage(const Backlog& backlog) const;

  // The output of one sample again, as one message, for a call that is retried. What is larger than
  // kMaxReplyBytes is dropped. One thread at a time.
  void Keep(const std::vector<TokenEvent>& prompt);
  void Keep(const Delta& delta);
  // Once, last.
  std::optional<std::string> Kept(const Usage& usage, const v1::SessionPosition& position);

 private:
  void SetUsage(const Usage& usage, v1::GenerateResponse* message) const;
  // Whether so many more bytes fit.
  bool Fits(size_t bytes);

  const Tokenizer* tokenizer_ = nullptr;
  bool logprobs_ = false;
  int64_t reread_ = 0;
  v1::GenerateResponse kept_;
  size_t kept_bytes_ = 0;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_GENERATE_OUTPUT_H_
