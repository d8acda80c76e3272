// The way of a prompt into a state.
#ifndef TVQ_SERVER_ENGINE_PROMPT_RUN_H_
#define TVQ_SERVER_ENGINE_PROMPT_RUN_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "models/runtime/model.h"
#include "server/engine/request.h"

namespace tvq {

// Feeds a prompt chunk by chunk, with the log-probabilities of its tokens where the request wants
// them. Owns the state until the prompt is fed. Scoring alone does not feed the last token, which
// predicts nothing. Used by the loop alone.
class PromptRun {
 public:
  // `request` must outlive this; its prompt has at least one token.
  PromptRun(const Request& request, std::unique_ptr<State> state);

  bool scores() const {
    return request_->purpose == Purpose::kScore ||
           (request_->purpose == Purpose::kGenerate && request_->sampling.prompt_logprobs);
  }
  int64_t remaining() const { return total_ - fed_; }
  // Null after TakeState.
  State* state() const { return state_.get(); }
  std::unique_ptr<State> TakeState() { return std::move(state_); }

  // The next `length` tokens. Valid, with the buffers it names, until the next call.
  PrefillChunk Chunk(int64_t length, int64_t logits_row);

  // The chunk was computed. Returns what OnPrompt is to be told, starting at prompt token `first`;
  // empty unless scores().
  std::vector<TokenEvent> Fed(int64_t length, int64_t& first);

  // The event of the prompt's first token, which nothing predicts.
  static TokenEvent FirstToken() { return {}; }

 private:
  int64_t top() const { return request_->sampling.prompt_logprobs.value_or(0); }

  const Request* request_;
  std::unique_ptr<State> state_;
  int64_t total_ = 0;  // tokens to feed
  int64_t fed_ = 0;
  // Of the current chunk.
  std::vector<int32_t> targets_;
  std::vector<TokenLogprob> target_logprobs_;
  std::vector<TokenLogprob> top_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_PROMPT_RUN_H_
