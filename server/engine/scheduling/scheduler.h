// Decides what one step computes. No threads, clock, device or sinks: plain numbers in, a plan out.
#ifndef TVQ_SERVER_ENGINE_SCHEDULING_SCHEDULER_H_
#define TVQ_SERVER_ENGINE_SCHEDULING_SCHEDULER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "server/engine/request/owner_limits.h"
#include "server/engine/scheduling/turns.h"

namespace tvq {

// What asks for steps, constant as long as the request runs.
struct Asker {
  size_t model = 0;
  std::string owner;
  OwnerLimits limits;    // of the owner; those of the latest request count
  int32_t priority = 0;  // among the owner's requests; lower first (OwnerOrder)
};

// What a running request has to compute.
struct Work {
  int64_t position = 0;          // tokens fed so far
  int64_t prompt_remaining = 0;  // tokens to prefill; 0: it decodes
  int64_t decode_rows = 0;       // rows of logits that it wants of a step that feeds no prompt
};

struct DecodeRows {
  uint64_t request = 0;
  int64_t rows = 0;  // of those it wants
};

struct PrefillAdvance {
  uint64_t request = 0;
  int64_t tokens = 0;  // whole chunks of NextChunk
};

struct StepPlan {
  size_t model = 0;
  std::vector<DecodeRows> decode;
  std::vector<PrefillAdvance> prefill;
  int64_t draft_rows = 0;        // that decode may have beside these requests' own
  bool crowded = false;          // more rows were wanted than the step has
  std::vector<uint64_t> paused;  // requests that were not ready; they have no turns until Resume

  bool empty() const { return decode.empty() && prefill.empty(); }
};

// One model's share of the scheduler.
struct ModelShare {
  int64_t prefill_chunk = 256;
  int32_t weight = 1;
  int64_t draft_rows = 0;  // Model::DraftRows
};

// A step is one model's: rows of decoding sequences, at most `max_num_seqs`, then whole prefill
// chunks as long as rows and chunk tokens stay within `max_num_batched_tokens`. The first chunk
// always goes, so decoding requests cannot starve a prompt, nor a budget below a chunk stop it.
//
// Rows, and apart from them chunks, go to owners in turns (Turns), a row or a chunk at a time. The
// sequences of an owner take turns for its rows; of its prompts the shortest is fed first, and now
// and then the oldest (OwnerOrder). A request that has no turn in a step keeps its state and loses
// nothing else.
//
// Drafts fill up steps that feed no prompt, up to the rows of one sequence with all its drafts. So
// no step is longer with drafts than a step of that sequence, and a batch of so many rows has none.
//
// The device is shared among owners first, by their weights, and an owner's share among the models
// for which it has work, by theirs. So an owner has the same share however many models the others
// use: its weight in a model's turns is its own, divided by the weights of all models for which it
// has work, and a model's weight is its own times the sum of its owners' weights. Models take turns
// in proportion to these (stride scheduling, by what their steps took).
//
// Deterministic; the state is which request asks for what, and whose turn it is. A plan takes time
// by the rows and chunks that it gives out, not by how many ask.
class Scheduler {
 public:
  Scheduler(const std::vector<ModelShare>& models, int64_t max_num_seqs,
            int64_t max_num_batched_tokens);

  // Ids are the caller's, and ascend. A request has no work at first.
  void Add(uint64_t id, Asker asker);
  void Remove(uint64_t id);
  // For each request that was given something, when it is computed, before the next plan.
  void SetWork(uint64_t id, const Work& work);
  // The request is ready again.
  void Resume(uint64_t id);

  // `ready`: whether a request may have a turn now. It is asked once for each request that is
  // considered.
  StepPlan Plan(const std::function<bool(uint64_t)>& ready);
  // Says how long the last plan ran on the device; to be called for each plan that is not empty.
  // Its model is charged for that over this step and its next ones, so that it does not stand still
  // after a long step. At most a second counts: otherwise a machine that slept would make the model
  // wait as long again.
  void Took(int64_t microseconds);

 private:
  // That has requests.
  struct Owner {
    int64_t requests = 0;
    int32_t weight = 1;
    std::vector<int64_t> standing;  // of each model, requests that stand in its turns
    std::vector<int64_t> shares;    // of each model, the owner's weight in its turns; 0: none stand
  };
  using OwnerEntry = std::map<std::string, Owner>::value_type;
  struct Request {
    Asker asker;
    OwnerEntry* owner = nullptr;
    Work work;
    bool paused = false;
    Turns* turns = nullptr;  // in which it stands
    // Of the step that is planned:
    uint64_t step = 0;   // the last one that considered it
    size_t planned = 0;  // index into StepPlan::decode or prefill
    bool has_plan = false;
  };
  struct ModelQueue {
    explicit ModelQueue(const ModelShare& share);

    ModelShare share;
    Turns rows;
    Turns prompts;
    int64_t next = 0;    // virtual time until the model's next step, from the last step of any
    int64_t weight = 0;  // of its owners in its turns
    int64_t pace = 0;    // virtual time that a microsecond takes
    double charge = 0;   // microseconds that its last step was charged for

    bool has_work() const { return !rows.empty() || !prompts.empty(); }
  };

  // The model whose step comes next, of those that have work and are not among `passed`.
  std::optional<size_t> PickModel(const std::vector<bool>& passed) const;
  // So many more requests of the owner stand in the model's turns.
  void Count(OwnerEntry& owner, size_t model, int64_t more);
  // Its weight, or the models for which it has work, have changed.
  void ShareOut(OwnerEntry& owner);
  void SetWeight(ModelQueue& model, int64_t weight);
  // False, and the request is paused, if it is not ready.
  bool Consider(uint64_t id, Request& request, const std::function<bool(uint64_t)>& ready,
                StepPlan& plan);
  // Returns how many rows it gave out.
  int64_t PlanDecode(ModelQueue& queue, const std::function<bool(uint64_t)>& ready, StepPlan& plan);
  void PlanPrefill(ModelQueue& queue, const std::function<bool(uint64_t)>& ready,
                   int64_t tokens_left, StepPlan& plan);
  // Puts the request where its work wants it.
  void Place(uint64_t id, Request& request);

  const int64_t max_num_seqs_;
  const int64_t max_num_batched_tokens_;
  std::vector<std::unique_ptr<ModelQueue>> models_;
  int64_t least_weight_ = 1;  // of a model
  std::map<std::string, Owner> owners_;
  std::unordered_map<uint64_t, Request> requests_;
  ModelQueue* planned_ = nullptr;  // whose step the last plan is
  int64_t planned_pace_ = 0;
  uint64_t step_ = 0;  // plans so far
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_SCHEDULING_SCHEDULER_H_
