// Decides what one step computes. No threads, clock, device or sinks: plain numbers in, a plan out.
#ifndef TVQ_SERVER_ENGINE_SCHEDULER_H_
#define TVQ_SERVER_ENGINE_SCHEDULER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tvq {

// What a waiting request needs before it may start: its samples' places and states, for its whole
// life, so that it never has to be preempted.
struct Need {
  int64_t sequences = 1;
  int64_t state_bytes = 0;  // of all samples, each the same
};

// A running request as the scheduler sees it.
struct RunningView {
  size_t model = 0;
  bool ready = true;             // false: its reader is behind, or its state on the way
  int64_t position = 0;          // tokens fed so far
  int64_t prompt_remaining = 0;  // tokens to prefill; 0: it decodes
  int64_t decode_rows = 0;       // rows of logits it needs for what feeds no prompt
};

struct PrefillAdvance {
  size_t request = 0;  // index into the running requests
  int64_t tokens = 0;  // whole chunks of NextChunk
};

struct StepPlan {
  size_t model = 0;
  std::vector<size_t> decode;  // requests all of whose unfinished samples get a token
  std::vector<PrefillAdvance> prefill;
  int64_t draft_rows = 0;  // that decode may have beside these requests' own

  bool empty() const { return decode.empty() && prefill.empty(); }
};

// One model's share of the scheduler.
struct ModelShare {
  int64_t prefill_chunk = 256;
  int32_t weight = 1;
  int64_t draft_rows = 0;  // Model::DraftRows
};

// A step is one model's: all its decode rows, then whole prefill chunks, first come first served,
// as long as rows and chunk tokens stay within `max_num_batched_tokens`. The first chunk always
// goes, so decoding requests cannot starve a prompt, nor a budget below a chunk stop it. Drafts
// fill up steps that feed no prompt, to as many rows as one sequence with all drafts has: a step is
// not longer by them than it was for that one, and a batch of so many sequences has none. Models
// with work take turns in proportion to their weights (stride scheduling). Deterministic; the only
// state is whose turn it is.
class Scheduler {
 public:
  Scheduler(std::vector<ModelShare> models, int64_t max_num_batched_tokens);

  // `running` is in the order of admission.
  StepPlan Plan(std::span<const RunningView> running);

 private:
  struct Turn {
    uint64_t next = 0;  // virtual time of the model's next step
    bool had_work = false;
  };

  bool PickModel(std::span<const RunningView> running, size_t& model);
  void PlanPrefill(std::span<const RunningView> running, int64_t tokens_left, StepPlan& plan) const;

  const std::vector<ModelShare> models_;
  const int64_t max_num_batched_tokens_;
  std::vector<Turn> turns_;
  uint64_t now_ = 0;  // virtual time of the last step
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_SCHEDULER_H_
