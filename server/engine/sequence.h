// One sample of a request.
#ifndef TVQ_SERVER_ENGINE_SEQUENCE_H_
#define TVQ_SERVER_ENGINE_SEQUENCE_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

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
  Sequence(const Submission& submission, std::optional<int32_t> eos, int32_t index, HeldState held);

  bool finished() const { return finished_; }
  // Null after TakeHeld.
  State* state() const { return held_.state.get(); }
  HeldState TakeHeld() { return std::move(held_); }
  // The last sampled token, which the state has not been fed; none at first, and after an end id.
  std::optional<int32_t> pending() const { return pending_; }
  // What was generated, if the request keeps its state: an ending id excluded.
  const std::vector<int32_t>& tokens() const { return tokens_; }

  // How to choose the next token from a row of logits. Valid until Accept.
  SampleRow NextSample(int64_t logits_row) const;

  // A token came now. When the one before it came.
  std::optional<SteadyTime> NoteToken(SteadyTime now) { return std::exchange(last_token_, now); }

  // Whether this id ends the sample and is no part of it.
  bool Ends(int32_t id) const;

  // Takes a sampled token and says what its reader gets. May finish the sequence.
  Delta Accept(TokenEvent event);

 private:
  Delta End(int32_t id);
  const SamplingParams& params() const { return submission_->request.sampling; }

  const Submission* submission_;
  std::optional<int32_t> eos_;
  int32_t index_;
  HeldState held_;
  TextStream text_;
  TokenCounts counts_;
  std::optional<int32_t> pending_;
  std::vector<int32_t> tokens_;
  int32_t generated_ = 0;
  std::optional<SteadyTime> last_token_;
  bool finished_ = false;
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_SEQUENCE_H_
