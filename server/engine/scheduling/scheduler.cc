#include "server/engine/scheduling/scheduler.h"

#include <algorithm>
#include <utility>

#include "models/runtime/model.h"

namespace tvq {
namespace {

// Virtual time of a step of weight 1. Divisible by small weights, and large enough that weights up
// to a million keep their proportion within a part in a thousand.
constexpr uint64_t kStride = 720720ull * 1000;

}  // namespace

// A round of rows gives each owner one; a round of chunks the tokens of one.
Scheduler::ModelQueue::ModelQueue(const ModelShare& share)
    : share(share), rows(1), prompts(share.prefill_chunk) {}

Scheduler::Scheduler(const std::vector<ModelShare>& models, int64_t max_num_seqs,
                     int64_t max_num_batched_tokens)
    : max_num_seqs_(max_num_seqs), max_num_batched_tokens_(max_num_batched_tokens) {
  models_.reserve(models.size());
  for (const ModelShare& share : models) models_.push_back(std::make_unique<ModelQueue>(share));
}

void Scheduler::Add(uint64_t id, Asker asker) {
  requests_[id] = {.asker = std::move(asker), .work = {}};
}

void Scheduler::Remove(uint64_t id) {
  const auto it = requests_.find(id);
  if (it->second.turns != nullptr) it->second.turns->Remove(id);
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
  if (request.turns != nullptr) request.turns->Remove(id);
  request.turns = turns;
  if (turns == nullptr) return;
  const int64_t most = turns == &model.rows ? asker.limits.max_num_seqs : 0;
  turns->Add(id, asker.owner, asker.priority, asker.limits.weight, most);
}

StepPlan Scheduler::Plan(const std::function<bool(uint64_t)>& ready) {
  ++step_;
  NoteIdleness();
  StepPlan plan;
  std::vector<bool> passed(models_.size(), false);
  while (const std::optional<size_t> model = PickModel(passed)) {
    ModelQueue& queue = *models_[*model];
    plan.model = *model;
    plan.crowded = false;
    const int64_t rows = PlanDecode(queue, ready, plan);
    PlanPrefill(queue, ready, max_num_batched_tokens_ - rows, plan);
    if (plan.empty()) {  // nobody was ready
      passed[*model] = true;
      queue.had_work = false;
      continue;
    }
    now_ = queue.next;
    queue.next += std::max<uint64_t>(1, kStride / static_cast<uint64_t>(queue.share.weight));
    if (plan.prefill.empty()) {
      plan.draft_rows = std::max<int64_t>(
          0, std::min(1 + queue.share.draft_rows - rows, max_num_batched_tokens_ - rows));
    }
    break;
  }
  return plan;
}

// Idle time earns no credit.
void Scheduler::NoteIdleness() {
  for (const auto& model : models_) {
    if (model->has_work() && !model->had_work) model->next = std::max(model->next, now_);
    model->had_work = model->has_work();
  }
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
    queue.rows.Take(1, all ? Turns::Then::kRest : Turns::Then::kRotate);
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
    queue.prompts.Take(chunk, all ? Turns::Then::kRest : Turns::Then::kStay);
  }
}

}  // namespace tvq
