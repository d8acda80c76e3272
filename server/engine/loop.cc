#include "server/engine/loop.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"

namespace tvq {

Loop::Loop(Inbox& inbox, std::vector<ModelRunner> runners, Scheduler scheduler, Need room,
           std::chrono::milliseconds paused_timeout)
    : inbox_(inbox),
      runners_(std::move(runners)),
      scheduler_(std::move(scheduler)),
      room_(room),
      paused_timeout_(paused_timeout),
      sequences_per_model_(runners_.size(), 0) {
  totals_.state_bytes_budget = room.state_bytes;
  published_ = totals_;
}

void Loop::Run() {
  for (bool stop = false; !stop;) {
    const SteadyTime now = std::chrono::steady_clock::now();
    Inbox::News news = inbox_.Take(now);
    stop = news.stop;
    Retire(std::move(news), now);
    Admit();
    const StepPlan plan = scheduler_.Plan(Views(now));
    if (plan.empty()) {
      if (!stop) inbox_.Wait(FirstDeadline());
      continue;
    }
    runners_[plan.model].Run(plan, running_, totals_);
    ++totals_.steps;
    Reap();
  }
}

// By value, so that the sinks of ended submissions are gone before the loop waits.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
void Loop::Retire(Inbox::News news, SteadyTime now) {
  for (const auto& r : running_) {
    const auto& cancelled = news.cancelled;
    if (std::find(cancelled.begin(), cancelled.end(), r->handle()) != cancelled.end()) {
      r->End(absl::CancelledError("the request was cancelled"));
    } else if (r->request().deadline <= now) {
      r->End(absl::DeadlineExceededError("the deadline passed while the request ran"));
    } else if (PausedTooLong(*r, now)) {
      r->End(absl::DeadlineExceededError(absl::StrCat(
          "the reader took nothing of the waiting output for ", paused_timeout_.count(), " ms")));
    } else if (news.abort) {
      r->End(absl::UnavailableError("the server is shutting down"));
    }
  }
  Reap(news.ended);
}

void Loop::Admit() {
  Need room = room_;
  for (const auto& r : running_) {
    room.sequences -= r->Reserved().sequences;
    room.state_bytes -= r->Reserved().state_bytes;
  }
  std::vector<Submission> admitted = inbox_.Admit(room);
  if (admitted.empty()) return;
  for (Submission& s : admitted) {
    Model& model = runners_[s.model].model();
    totals_.prompt_tokens += static_cast<int64_t>(s.request.prompt.size());
    running_.push_back(std::make_unique<ActiveRequest>(std::move(s), model));
    running_.back()->Start();
  }
  Reap();
}

bool Loop::PausedTooLong(const ActiveRequest& request, SteadyTime now) const {
  const std::optional<SteadyTime> since = request.paused_since();
  return since && now - *since >= paused_timeout_ && !request.request().sink->WantsMore();
}

std::vector<RunningView> Loop::Views(SteadyTime now) {
  std::vector<RunningView> views;
  views.reserve(running_.size());
  for (const auto& r : running_) {
    views.push_back(r->View());
    r->NotePaused(!views.back().ready, now);
  }
  return views;
}

void Loop::Reap(const std::vector<std::pair<Submission, absl::Status>>& ended) {
  const auto done = std::stable_partition(running_.begin(), running_.end(),
                                          [](const auto& r) { return !r->done(); });
  const std::vector<std::unique_ptr<ActiveRequest>> finished(
      std::make_move_iterator(done), std::make_move_iterator(running_.end()));
  running_.erase(done, running_.end());
  for (const auto& [submission, status] : ended) Count(status);
  for (const auto& r : finished) Count(r->outcome());
  // Whoever hears of the end finds it in the figures.
  Publish();
  for (const auto& [submission, status] : ended) {
    submission.request.sink->OnDone(
        status, {.prompt_tokens = static_cast<int64_t>(submission.request.prompt.size())});
  }
  for (const auto& r : finished) r->request().sink->OnDone(r->outcome(), r->usage());
  if (const auto count = ended.size() + finished.size(); count > 0) {
    inbox_.Done(static_cast<int64_t>(count));
  }
}

void Loop::Count(const absl::Status& outcome) {
  if (outcome.ok()) {
    ++totals_.requests_finished;
  } else if (absl::IsCancelled(outcome)) {
    ++totals_.requests_cancelled;
  } else {
    ++totals_.requests_failed;
  }
}

void Loop::Publish() {
  EngineStats stats = totals_;
  std::vector<int64_t> per_model(runners_.size(), 0);
  for (const auto& r : running_) {
    const Need reserved = r->Reserved();
    stats.sequences_running += reserved.sequences;
    stats.state_bytes_reserved += reserved.state_bytes;
    stats.state_bytes += r->StateBytes();
    per_model[r->model()] += reserved.sequences;
  }
  stats.requests_running = static_cast<int64_t>(running_.size());
  const std::lock_guard lock(mutex_);
  published_ = stats;
  sequences_per_model_ = std::move(per_model);
}

SteadyTime Loop::FirstDeadline() const {
  SteadyTime first = SteadyTime::max();
  for (const auto& r : running_) {
    first = std::min(first, r->request().deadline);
    if (r->paused_since()) first = std::min(first, *r->paused_since() + paused_timeout_);
  }
  return first;
}

EngineStats Loop::stats() const {
  const std::lock_guard lock(mutex_);
  return published_;
}

int64_t Loop::SequencesRunning(size_t model) const {
  const std::lock_guard lock(mutex_);
  return sequences_per_model_[model];
}

}  // namespace tvq
