// A request that was admitted: its prompt, then its samples, and what it owes its sink.
#ifndef TVQ_SERVER_ENGINE_SEQUENCE_ACTIVE_REQUEST_H_
#define TVQ_SERVER_ENGINE_SEQUENCE_ACTIVE_REQUEST_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/runtime/model.h"
#include "server/engine/scheduling/scheduler.h"
#include "server/engine/sequence/prompt_run.h"
#include "server/engine/sequence/sequence.h"
#include "server/engine/sequence/submission.h"

namespace tvq {

// It waits for its state, feeds its prompt, decodes its samples, and is done. Used by the loop
// alone. Once done it holds no states but the one it leaves, and calls its sink no more, but for
// OnKept and OnEnd, which are the loop's to call.
class ActiveRequest {
 public:
  // The submission has its share of `budget`; copies of the prompt's state may get more. What
  // drafts for a sample has a share of `draft_memory`; a sample that gets none has no drafts.
  ActiveRequest(Submission submission, Model& model, StateBudget& budget, ByteBudget& draft_memory);

  // Takes a new state. If the request has a StateSource, that fills it first: `filled` is then
  // called once, on any thread, perhaps before this returns or after the request is done. What it
  // gets is to be passed to OnFilled. A request that cannot start is done.
  void Start(StateSource::Done filled);
  bool filling() const { return filling_; }
  void OnFilled(absl::StatusOr<HeldState> filled);

  RequestHandle handle() const { return submission_.handle; }
  size_t model() const { return submission_.model; }
  const Request& request() const { return submission_.request; }
  SteadyTime submitted() const { return submission_.submitted; }
  const Usage& usage() const { return usage_; }
  // Generated since the last call.
  int64_t TakeUncharged() {
    return usage_.completion_tokens - std::exchange(charged_, usage_.completion_tokens);
  }
  const PromptCharge& charge() const { return submission_.charge; }
  // Of the charge, tokens that are not computed.
  int64_t uncomputed() const { return uncomputed_; }
  bool started() const { return started_; }  // its sink was greeted
  bool done() const { return outcome_.has_value(); }
  const absl::Status& outcome() const { return *outcome_; }  // once done

  // Whether some of the echo is still to be sent; until it is out the request computes nothing.
  bool echoes() const { return started_ && !done() && !submission_.echo.empty(); }
  // Sends as much of it as the sink wants now, while echoes().
  void SendEcho();

  // What is to be computed for it; nothing while its state is on the way.
  Work work() const;
  // What is still reserved: finished samples have given theirs back.
  Need Reserved() const;
  // Once done: of a state that is not back, as what it leaves or because it is still being filled.
  int64_t LeftBytes() const;
  // Device memory that its states have for themselves now.
  int64_t StateBytes() const;

  // While the prompt is fed; null before, afterwards and when done.
  PromptRun* prompt() { return prompt_ ? &*prompt_ : nullptr; }
  // A chunk of the prompt was computed. After the last one the samples exist, or the request is
  // done.
  void OnFed(int64_t tokens);

  // Once the prompt is fed.
  std::span<Sequence> sequences() { return sequences_; }
  // Of the samples that are not finished, the next `count` in turns, or all if there are fewer.
  std::vector<Sequence*> NextSequences(int64_t count);
  // What the first tokens of samples that have nothing pending are sampled from.
  const std::vector<float>& start_logits() const { return *request().start->logits; }
  // Hands a sampled token to a sample. Its output goes to the sink with its first token, its last,
  // and whenever `stream_interval` tokens wait. The rest goes later, or when the request ends.
  void OnSampled(Sequence& sequence, TokenEvent event, int64_t stream_interval);

  // If nothing is left to feed, a continuation needs the logits after the last token: those at the
  // prompt's end, or those from which an ending id was sampled. KeepLogits is then called before
  // OnFed or OnSampled; the request ends if they are not finite.
  bool KeepsLogitsOfPrompt() const;
  void KeepLogits(std::vector<float> logits);

  // Ends the request, if it is not done, and gives back its states.
  void End(absl::Status outcome);
  // Gives a better reason for the end of a request that has ended.
  void Diagnose(absl::Status outcome) { outcome_ = std::move(outcome); }
  // Ends it with CANCELLED. What was generated so far may be kept: the client wanted no more.
  void Cancel();
  // What a request that is done leaves, if anything.
  std::optional<Continuation> TakeKept() { return std::exchange(kept_, std::nullopt); }

 private:
  absl::StatusOr<HeldState> NewState();
  void Begin(HeldState held);
  // What follows the start, or the echo.
  void BeginPrompt();
  void OfferPrefix();
  void OnPromptFed();
  // Nothing where the request can have no drafts, or there is no memory for them.
  std::optional<HeldDrafter> NewDrafter() const;
  absl::Status Split();
  // The samples of a request that wants no tokens.
  void EndWithoutTokens();
  // Gives the sink the vectors.
  absl::Status DeliverVectors();
  void Keep(HeldState held, const Sequence* sequence);
  // The text of the last of these tokens: AnswerEnd::kMaxTail bytes or more, if all have so many.
  std::string EndOf(std::span<const int32_t> tokens) const;
  int64_t Unfinished() const;

  Submission submission_;
  Model* model_;
  StateBudget* budget_;
  ByteBudget* draft_memory_;
  bool filling_ = false;
  bool started_ = false;
  std::optional<PromptRun> prompt_;
  // Where the echo goes on.
  int32_t echo_index_ = 0;
  size_t echo_begin_ = 0;
  size_t next_mark_ = 0;  // of request().prefix_marks
  std::vector<Sequence> sequences_;
  size_t next_sequence_ = 0;  // whose turn it is
  std::vector<float> last_logits_;
  std::optional<Continuation> kept_;
  Usage usage_;
  int64_t charged_ = 0;  // of usage_.completion_tokens
  int64_t uncomputed_;   // of submission_.charge
  std::optional<absl::Status> outcome_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_SEQUENCE_ACTIVE_REQUEST_H_
