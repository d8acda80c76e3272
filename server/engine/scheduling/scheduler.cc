#include "server/engine/scheduling/scheduler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "models/runtime/model.h"

namespace tvq {
namespace {

// Virtual time of a microsecond of a model of weight 1. Divisible by small weights, and large
// enough that weights up to a million keep their proportion within a part in a thousand.
constexpr int64_t kStride = int64_t{720720} * 1000;
constexpr int64_t kMostMicroseconds = 1'000'000;
// What a step took is charged over so many.
constexpr double kSteps = 16;
// An owner's weight is divided by so much at most, as turns take longer with smaller weights.
constexpr int64_t kMostParts = 1000;

}  // namespace

// A round of rows gives each owner one; a round of chunks the tokens of one.
Scheduler::ModelQueue::ModelQueue(const ModelShare& share)
    : share(share), rows(1, NewRowOrder), prompts(share.prefill_chunk, NewPromptOrder) {}

Scheduler::Scheduler(const std::vector<ModelShare>& models, int64_t max_num_seqs,
                     int64_t max_num_batched_tokens)
    : max_num_seqs_(max_num_seqs), max_num_batched_tokens_(max_num_batched_tokens) {
  models_.reserve(models.size());
  for (const ModelShare& share : models) {
    if (models_.empty() || share.weight < least_weight_) least_weight_ = share.weight;
    models_.push_back(std::make_unique<ModelQueue>(share));
  }
}

void Scheduler::Add(uint64_t id, Asker asker) {
  OwnerEntry& owner = *owners_.try_emplace(asker.owner).first;
  if (++owner.second.requests == 1) {
    owner.second.standing.resize(models_.size());
    owner.second.shares.resize(models_.size());
  }
  requests_[id] = {.asker = std::move(asker), .owner = &owner, .work = {}};
}

void Scheduler::Remove(uint64_t id) {
  const auto it = requests_.find(id);
  Request& request = it->second;
  if (request.turns != nullptr) {
    request.turns->Remove(id);
    Count(*request.owner, request.asker.model, -1);
  }
  if (--request.owner->second.requests == 0) owners_.erase(owners_.find(request.asker.owner));
  requests_.erase(it);
}

void Scheduler::SetWork(uint64_t id, const Work& work) {
  Request& request = requests_.at(id);
  request.work = work;
  Place(id, request);
}

void Scheduler::Resume(uint64_t id) {
  Request& request = requests_.at(id);
  request.paused = false;
  Place(id, request);
}

void Scheduler::Place(uint64_t id, Request& request) {
  const Asker& asker = request.asker;
  ModelQueue& model = *models_[asker.model];
  Turns* turns = nullptr;
  if (!request.paused) {
    if (request.work.prompt_remaining > 0) {
      turns = &model.prompts;
    } else if (request.work.decode_rows > 0) {
      turns = &model.rows;
    }
  }
  if (turns == request.turns) return;
  OwnerEntry& owner = *request.owner;
  if (request.turns != nullptr) request.turns->Remove(id);
  const int64_t more = (turns != nullptr ? 1 : 0) - (request.turns != nullptr ? 1 : 0);
  request.turns = turns;
  if (turns != nullptr && owner.second.weight != asker.limits.weight) {
    owner.second.weight = asker.limits.weight;
    ShareOut(owner);
  }
  if (more != 0) Count(owner, asker.model, more);
  if (turns == nullptr) return;
  const int64_t most = turns == &model.rows ? asker.limits.max_num_seqs : 0;
  turns->Add({.id = id, .priority = asker.priority, .left = request.work.prompt_remaining},
             asker.owner, owner.second.shares[asker.model], most);
}

void Scheduler::Count(OwnerEntry& owner, size_t model, int64_t more) {
  int64_t& standing = owner.second.standing[model];
  const bool stood = standing > 0;
  standing += more;
  if (stood != (standing > 0)) ShareOut(owner);
}

void Scheduler::ShareOut(OwnerEntry& entry) {
  auto& [name, owner] = entry;
  int64_t weights = 0;
  for (size_t m = 0; m < models_.size(); ++m) {
    if (owner.standing[m] > 0) weights += models_[m]->share.weight;
  }
  for (size_t m = 0; m < models_.size(); ++m) {
    ModelQueue& model = *models_[m];
    int64_t share = 0;
    if (owner.standing[m] > 0) {
      share = std::max(Turns::kWeight * owner.weight * least_weight_ / weights,
                       Turns::kWeight / kMostParts);
    }
    const int64_t before = std::exchange(owner.shares[m], share);
    if (share == before) continue;
    SetWeight(model, model.weight + share - before);
    model.rows.SetWeight(name, share);
    model.prompts.SetWeight(name, share);
  }
}

void Scheduler::SetWeight(ModelQueue& model, int64_t weight) {
  model.weight = weight;
  if (weight == 0) return;
  const double pace = static_cast<double>(kStride) * static_cast<double>(Turns::kWeight) *
                      static_cast<double>(least_weight_) / static_cast<double>(weight) /
                      model.share.weight;
  const int64_t before = std::exchange(model.pace, std::max<int64_t>(1, std::llround(pace)));
  // What is left of the way to its next step is gone at the new pace.
  if (before > 0 && before != model.pace) {
    model.next = std::llround(static_cast<double>(model.next) * static_cast<double>(model.pace) /
                              static_cast<double>(before));
  }
}

StepPlan Scheduler::Plan(const std::function<bool(uint64_t)>& ready) {
  ++step_;
  StepPlan plan;
  std::vector<bool> passed(models_.size(), false);
  while (const std::optional<size_t> model = PickModel(passed)) {
    ModelQueue& queue = *models_[*model];
    plan.model = *model;
    plan.crowded = false;
    const int64_t rows = PlanDecode(queue, ready, plan);
    PlanPrefill(queue, ready, max_num_batched_tokens_ - rows, plan);
    if (plan.empty()) {  // none was ready
      passed[*model] = true;
      continue;
    }
    planned_ = &queue;
    planned_pace_ = queue.pace;
    // Those that had no work meanwhile have no claim on the past.
    const int64_t now = queue.next;
    for (const auto& m : models_) m->next = std::max<int64_t>(0, m->next - now);
    if (plan.prefill.empty()) {
      plan.draft_rows = std::max<int64_t>(
          0, std::min(1 + queue.share.draft_rows - rows, max_num_batched_tokens_ - rows));
    }
    break;
  }
  return plan;
}

void Scheduler::Took(int64_t microseconds) {
  double& charge = planned_->charge;
  charge += (static_cast<double>(std::min(microseconds, kMostMicroseconds)) - charge) / kSteps;
  planned_->next += std::max<int64_t>(1, std::llround(charge)) * planned_pace_;
}

std::optional<size_t> Scheduler::PickModel(const std::vector<bool>& passed) const {
  std::optional<size_t> best;
  for (size_t m = 0; m < models_.size(); ++m) {
    if (passed[m] || !models_[m]->has_work()) continue;
    if (!best || models_[m]->next < models_[*best]->next) best = m;
  }
  return best;
}

bool Scheduler::Consider(uint64_t id, Request& request, const std::function<bool(uint64_t)>& ready,
                         StepPlan& plan) {
  if (request.step == step_) return true;
  request.step = step_;
  request.has_plan = false;
  if (ready(id)) return true;
  request.paused = true;
  Place(id, request);
  plan.paused.push_back(id);
  return false;
}

int64_t Scheduler::PlanDecode(ModelQueue& queue, const std::function<bool(uint64_t)>& ready,
                              StepPlan& plan) {
  queue.rows.BeginStep();
  int64_t rows = 0;
  while (const std::optional<uint64_t> id = queue.rows.Next()) {
    Request& request = requests_.at(*id);
    if (!Consider(*id, request, ready, plan)) continue;
    if (rows == max_num_seqs_) {
      plan.crowded = true;
      break;
    }
    ++rows;
    if (!request.has_plan) {
      request.has_plan = true;
      request.planned = plan.decode.size();
      plan.decode.push_back({.request = *id});
    }
    const bool all = ++plan.decode[request.planned].rows == request.work.decode_rows;
    queue.rows.Take(1, all ? Then::kRest : Then::kAgain);
  }
  return rows;
}

void Scheduler::PlanPrefill(ModelQueue& queue, const std::function<bool(uint64_t)>& ready,
                            int64_t tokens_left, StepPlan& plan) {
  queue.prompts.BeginStep();
  while (const std::optional<uint64_t> id = queue.prompts.Next()) {
    Request& request = requests_.at(*id);
    if (!Consider(*id, request, ready, plan)) continue;
    const Work& work = request.work;
    const int64_t planned = request.has_plan ? plan.prefill[request.planned].tokens : 0;
    const int64_t chunk = NextChunk(work.position + planned, work.prompt_remaining - planned,
                                    queue.share.prefill_chunk);
    if (chunk > tokens_left && !plan.prefill.empty()) break;
    tokens_left -= chunk;
    if (!request.has_plan) {
      request.has_plan = true;
      request.planned = plan.prefill.size();
      plan.prefill.push_back({.request = *id});
    }
    plan.prefill[request.planned].tokens += chunk;
    const bool all = planned + chunk == work.prompt_remaining;
    queue.prompts.Take(chunk, all ? Then::kRest : Then::kAgain);
  }
}

}  // namespace tvq
