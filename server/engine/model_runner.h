// Computes a step on one model: prefill, decode, sample, deliver.
#ifndef TVQ_SERVER_ENGINE_MODEL_RUNNER_H_
#define TVQ_SERVER_ENGINE_MODEL_RUNNER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "models/runtime/model.h"
#include "server/engine/engine_stats.h"
#include "server/engine/request/engine_options.h"
#include "server/engine/sequence/active_request.h"

namespace tvq {

// Used by the loop alone.
class ModelRunner {
 public:
  // Allocates logits for the rows of a step and the model's drafts. `grammar_threads` find what
  // grammars allow.
  static absl::StatusOr<ModelRunner> Create(std::shared_ptr<Model> model,
                                            const EngineOptions& options,
                                            std::shared_ptr<GrammarThreads> grammar_threads);

  Model& model() const { return *model_; }

  // What a plan has for a request.
  struct Turn {
    ActiveRequest* request;
    int64_t count;  // rows, or tokens of its prompt
  };
  struct Step {
    std::vector<Turn> decode;
    std::vector<Turn> prefill;
    int64_t draft_rows = 0;
  };
  // Requests whose call fails end with its status; the others go on. Counts tokens in `totals`.
  // Sinks get `stream_interval` tokens of a sample at a time. A step is computed in parts: what
  // decodes, then each prompt. `on_part` is called after each with the requests that were computed,
  // and may let go of those that are done.
  void Run(const Step& step, int64_t stream_interval, EngineStats& totals,
           const std::function<void(std::span<const Turn>)>& on_part);

 private:
  struct Draw {
    ActiveRequest* request;
    Sequence* sequence;
    int64_t right = 0;  // tokens of a draft before it, all of which must be right
  };

  ModelRunner(std::shared_ptr<Model> model, Logits logits, std::chrono::milliseconds grammar_wait,
              std::shared_ptr<GrammarThreads> grammar_threads);
  // Feeds so many tokens of its prompt, which are whole chunks.
  void Prefill(ActiveRequest& request, int64_t tokens, EngineStats& totals);
  void Encode(ActiveRequest& request, int64_t rows);
  void FeedChunk(ActiveRequest& request, int64_t length, EngineStats& totals);
  void Decode(const Step& step, EngineStats& totals);
  // Feeds their pending tokens, and drafts that share `draft_rows`.
  void FeedPending(std::span<const Draw> sequences, int64_t draft_rows, EngineStats& totals);
  // What a start's logits say of the prompt's first token.
  absl::Status ScoreFirst(const Request& request, PromptRun& prompt);
  // The first tokens of samples that have nothing pending.
  void SampleFromStart(ActiveRequest& request, std::span<Sequence* const> sequences);
  // False, and the request has ended, if the row cannot be kept.
  bool KeepLogits(ActiveRequest& request, int64_t row);
  void AddDraw(const Draw& draw, int64_t logits_row);
  // Waits, but not long, for what grammars allow in the draws that were added. Draws that would
  // have to wait longer are parked.
  void AwaitAllowed();
  void Park(const Draw& draw, SampleRow& row);
  // Adds the draws of which it is known by now what their grammars allow. Waits for one, but not
  // long, if nothing else is to be done.
  void TakeUp(std::span<const Draw> parked, bool may_wait);
  // Takes out draws that were added.
  void ForgetDraws(bool (*which)(const Draw&));
  // What was added since the last time. All rows of logits are free then.
  void SampleAndDeliver(int64_t stream_interval, EngineStats& totals);
  // A token of a draw whose drafts were right.
  void Deliver(const Draw& draw, TokenEvent event, int64_t logits_row, int64_t stream_interval,
               SteadyTime now, EngineStats& totals);
  static void CountToken(const ActiveRequest& request, Sequence& sequence, SteadyTime now,
                         EngineStats& totals);

  std::shared_ptr<Model> model_;
  Logits logits_;
  std::chrono::milliseconds grammar_wait_;
  std::shared_ptr<GrammarThreads> grammar_threads_;
  // Since SampleAndDeliver.
  int64_t next_row_ = 0;  // the first row of logits that is free
  std::vector<Draw> draws_;
  std::vector<SampleRow> rows_;  // of draws_
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_MODEL_RUNNER_H_
