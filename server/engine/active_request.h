// A request that was admitted: its prompt, then its samples, and what it owes its sink.
#ifndef TVQ_SERVER_ENGINE_ACTIVE_REQUEST_H_
#define TVQ_SERVER_ENGINE_ACTIVE_REQUEST_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "models/runtime/model.h"
#include "server/engine/prompt_run.h"
#include "server/engine/scheduler.h"
#include "server/engine/sequence.h"
#include "server/engine/submission.h"

namespace tvq {

// Used by the loop alone. Once done it holds no states and calls its sink no more, but for OnDone,
// which is the loop's to call.
class ActiveRequest {
 public:
  ActiveRequest(Submission submission, Model& model);

  // Takes a state and greets the sink. What cannot start is done.
  void Start();

  RequestHandle handle() const { return submission_.handle; }
  size_t model() const { return submission_.model; }
  const Request& request() const { return submission_.request; }
  const Usage& usage() const { return usage_; }
  bool done() const { return outcome_.has_value(); }
  const absl::Status& outcome() const { return *outcome_; }  // once done

  RunningView View() const;
  // When its reader was first seen to be behind, if it still was the last time. The loop notes it
  // before every step.
  std::optional<SteadyTime> paused_since() const { return paused_since_; }
  void NotePaused(bool paused, SteadyTime now) {
    if (!paused) paused_since_.reset();
    if (paused && !paused_since_) paused_since_ = now;
  }
  // What is still reserved: finished samples have given theirs back.
  Need Reserved() const;
  // Device memory that its states hold now.
  int64_t StateBytes() const;

  // While the prompt is fed; null afterwards and when done.
  PromptRun* prompt() { return prompt_ ? &*prompt_ : nullptr; }
  // A chunk of the prompt was computed. After the last one the samples exist, or the request is
  // done.
  void OnFed(int64_t tokens);

  // Once the prompt is fed.
  std::span<Sequence> sequences() { return sequences_; }
  // Hands a sampled token to one of them and the output to the sink.
  void OnSampled(Sequence& sequence, TokenEvent event);

  // Ends the request, if it is not done, and gives back its states.
  void End(absl::Status outcome);

 private:
  void SendEcho(std::string_view text);
  absl::Status Split();
  int64_t Unfinished() const;

  Submission submission_;
  Model* model_;
  std::optional<PromptRun> prompt_;
  std::vector<Sequence> sequences_;
  Usage usage_;
  std::optional<SteadyTime> paused_since_;
  std::optional<absl::Status> outcome_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_ACTIVE_REQUEST_H_
