// One sample of a request.
#ifndef TVQ_SERVER_ENGINE_SEQUENCE_H_
#define TVQ_SERVER_ENGINE_SEQUENCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "models/runtime/model.h"
#include "server/engine/request.h"
#include "server/engine/submission.h"
#include "server/engine/text_stream.h"
#include "server/engine/token_counts.h"

namespace tvq {

// A decoding state and what sampling needs beside it: text, penalty counts, how many tokens came.
// From the prompt's end on the only owner of the state. Used by the loop alone.
class Sequence {
 public:
  // `submission` must outlive the sequence.
  Sequence(const Submission& submission, std::optional<int32_t> eos, int32_t index,
           std::unique_ptr<State> state);

  bool finished() const { return finished_; }
  // Null after TakeState.
  State* state() const { return state_.get(); }
  // Gives the state away, once the sequence is finished.
  std::unique_ptr<State> TakeState() { return std::move(state_); }
  // The last sampled token, which the state has not been fed.
  int32_t pending() const { return pending_; }

  // How to choose the next token from a row of logits. Valid until Accept.
  SampleRow NextSample(int64_t logits_row) const;

  // Takes a sampled token and says what its reader gets. May finish the sequence.
  Delta Accept(TokenEvent event);

 private:
  bool Ends(int32_t id) const;
  Delta End(int32_t id);
  const SamplingParams& params() const { return submission_->request.sampling; }

  const Submission* submission_;
  std::optional<int32_t> eos_;
  int32_t index_;
  std::unique_ptr<State> state_;
  TextStream text_;
  TokenCounts counts_;
  int32_t pending_ = 0;
  int32_t generated_ = 0;
  bool finished_ = false;
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_SEQUENCE_H_
