#include "server/engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "models/runtime/model.h"

namespace tvq {
namespace {

// Virtual time of a step of weight 1. Divisible by small weights, and large enough that weights up
// to a million keep their proportion within a part in a thousand.
constexpr uint64_t kStride = 720720ull * 1000;

bool HasWork(const RunningView& r) {
  return r.ready && (r.prompt_remaining > 0 || r.decode_rows > 0);
}

}  // namespace

Scheduler::Scheduler(std::vector<ModelShare> models, int64_t max_num_batched_tokens)
    : models_(std::move(models)),
      max_num_batched_tokens_(max_num_batched_tokens),
      turns_(models_.size()) {}

StepPlan Scheduler::Plan(std::span<const RunningView> running) {
  StepPlan plan;
  if (!PickModel(running, plan.model)) return plan;
  int64_t tokens_left = max_num_batched_tokens_;
  for (size_t i = 0; i < running.size(); ++i) {
    const RunningView& r = running[i];
    if (r.model != plan.model || !HasWork(r) || r.prompt_remaining > 0) continue;
    plan.decode.push_back(i);
    tokens_left -= r.decode_rows;
  }
  PlanPrefill(running, tokens_left, plan);
  if (plan.prefill.empty()) {
    const int64_t drafts = models_[plan.model].draft_rows;
    const int64_t rows = max_num_batched_tokens_ - tokens_left;
    plan.draft_rows = std::max<int64_t>(0, std::min(1 + drafts - rows, tokens_left));
  }
  return plan;
}

bool Scheduler::PickModel(std::span<const RunningView> running, size_t& model) {
  std::vector<bool> has_work(models_.size(), false);
  for (const RunningView& r : running) {
    if (HasWork(r)) has_work[r.model] = true;
  }
  bool found = false;
  for (size_t m = 0; m < models_.size(); ++m) {
    Turn& turn = turns_[m];
    // Idle time earns no credit.
    if (has_work[m] && !turn.had_work) turn.next = std::max(turn.next, now_);
    turn.had_work = has_work[m];
    if (has_work[m] && (!found || turn.next < turns_[model].next)) {
      model = m;
      found = true;
    }
  }
  if (!found) return false;
  now_ = turns_[model].next;
  turns_[model].next += std::max<uint64_t>(1, kStride / models_[model].weight);
  return true;
}

void Scheduler::PlanPrefill(std::span<const RunningView> running, int64_t tokens_left,
                            StepPlan& plan) const {
  const int64_t chunk_size = models_[plan.model].prefill_chunk;
  for (size_t i = 0; i < running.size(); ++i) {
    const RunningView& r = running[i];
    if (r.model != plan.model || !r.ready || r.prompt_remaining == 0) continue;
    int64_t tokens = 0;
    while (tokens < r.prompt_remaining) {
      const int64_t chunk = NextChunk(r.position + tokens, r.prompt_remaining - tokens, chunk_size);
      const bool first = tokens == 0 && plan.prefill.empty();
      if (chunk > tokens_left && !first) break;
      tokens += chunk;
      tokens_left -= chunk;
    }
    if (tokens > 0) plan.prefill.push_back({i, tokens});
    if (tokens < r.prompt_remaining) return;
  }
}

}  // namespace tvq
