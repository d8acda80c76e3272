// The way of a prompt into a state.
#ifndef TVQ_SERVER_ENGINE_SEQUENCE_PROMPT_RUN_H_
#define TVQ_SERVER_ENGINE_SEQUENCE_PROMPT_RUN_H_

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "models/runtime/model.h"
#include "server/engine/request/request.h"

namespace tvq {

// Feeds what the start left pending and the prompt as one stream, chunk by chunk, with the
// log-probabilities of the prompt's tokens where the request wants them. Owns the state until the
// stream is fed. A score that keeps nothing does not feed the last token, which predicts nothing.
// Used by the loop alone.
class PromptRun {
 public:
  // `request` must outlive this. `held` is at the request's start. To encode, `encoder_rows` are
  // what remains, instead of tokens.
  PromptRun(const Request& request, HeldState held, int64_t encoder_rows = 0);

  bool scores() const { return Scores(*request_); }
  int64_t remaining() const { return total_ - fed_; }
  State* state() const { return held_.state.get(); }
  HeldState& held() { return held_; }
  const HeldState& held() const { return held_; }
  HeldState TakeHeld() { return std::move(held_); }
  // Tokens of the prompt that the state holds.
  int64_t prompt_fed() const;

  // While true, the log-probability of the prompt's first token is to be taken from the logits of
  // the start, and set before anything is fed.
  bool needs_first() const { return needs_first_; }
  void SetFirst(TokenEvent event);

  // The next `length` tokens. Valid, with the buffers it names, until the next call.
  PrefillChunk Chunk(int64_t length, int64_t logits_row);

  // The chunk was computed, or with length 0 there was nothing to feed. Returns what OnPrompt is to
  // be told, starting at prompt token `first`; empty unless scores().
  std::vector<TokenEvent> Fed(int64_t length, int64_t& first);

 private:
  int64_t top() const { return request_->sampling.prompt_logprobs.value_or(0); }

  const Request* request_;
  HeldState held_;
  std::vector<int32_t> joined_;      // pending ++ prompt, if there is something pending
  std::span<const int32_t> tokens_;  // the stream
  int64_t pending_ = 0;              // tokens of the stream that are not of the prompt
  int64_t total_ = 0;                // tokens to feed
  int64_t fed_ = 0;
  bool needs_first_ = false;
  TokenEvent first_;  // of the prompt's first token, if no fed token predicts it
  // Of the current chunk.
  std::vector<int32_t> targets_;
  std::vector<TokenLogprob> target_logprobs_;
  std::vector<TokenLogprob> top_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_SEQUENCE_PROMPT_RUN_H_
