#include "server/engine/loop.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"

namespace tvq {

Loop::Loop(Inbox& inbox, StateBudget& budget, std::vector<ModelRunner> runners, Scheduler scheduler,
           const EngineOptions& options)
    : inbox_(inbox),
      budget_(budget),
      runners_(std::move(runners)),
      scheduler_(std::move(scheduler)),
      max_num_seqs_(options.max_num_seqs),
      stream_interval_(options.stream_interval),
      paused_timeout_(options.paused_timeout),
      published_of_models_(runners_.size()) {
  totals_.state_bytes_budget = budget.total();
  published_ = totals_;
}

void Loop::Run() {
  for (bool stop = false; !stop || fills_ > 0;) {
    const SteadyTime now = std::chrono::steady_clock::now();
    totals_.step_began = now;
    {
      // The sinks of ended submissions are gone before the loop waits.
      Inbox::News news = inbox_.Take(now);
      stop = stop || news.stop;
      Retire(news);
      TakeFilled(news);
    }
    Admit();
    const StepPlan plan = scheduler_.Plan(Views(now));
    if (plan.empty()) {
      if (!stop || fills_ > 0) Wait();
      continue;
    }
    ++totals_.steps;
    runners_[plan.model].Run(plan, running_, crowded_ ? stream_interval_ : 1, totals_, [this] {
      ChargeOwners();
      // Figures are for the step's end, unless somebody hears of theirs before.
      if (std::any_of(running_.begin(), running_.end(), [](const auto& r) { return r->done(); })) {
        Reap();
      }
    });
    Publish();
  }
}

void Loop::Wait() {
  totals_.step_began.reset();
  Publish();
  inbox_.Wait(FirstDeadline());
}

void Loop::Retire(const Inbox::News& news) {
  // Later than the news: whoever cancels because the deadline has passed is late, too.
  const SteadyTime now = std::chrono::steady_clock::now();
  for (const auto& r : running_) {
    const auto& cancelled = news.cancelled;
    if (r->request().deadline <= now) {
      r->End(absl::DeadlineExceededError("the deadline passed while the request ran"));
    } else if (std::find(cancelled.begin(), cancelled.end(), r->handle()) != cancelled.end()) {
      r->Cancel();
    } else if (PausedTooLong(*r, now)) {
      r->End(absl::DeadlineExceededError(absl::StrCat(
          "the reader took nothing of the waiting output for ", paused_timeout_.count(), " ms")));
    } else if (news.abort) {
      r->End(*news.abort);
    }
  }
  Reap(news.ended);
}

void Loop::TakeFilled(Inbox::News& news) {
  if (news.filled.empty()) return;
  for (auto& [handle, filled] : news.filled) {
    --fills_;
    const auto it = std::find_if(running_.begin(), running_.end(),
                                 [h = handle](const auto& r) { return r->handle() == h; });
    if (it == running_.end()) continue;  // it ended meanwhile
    (*it)->OnFilled(std::move(filled));
    CountStart(**it);
  }
  news.filled.clear();  // gives back what came too late
  Reap();
}

void Loop::Admit() {
  int64_t places = max_num_seqs_;
  for (const auto& r : running_) places -= r->Reserved().sequences;
  while (true) {
    Inbox::Admission admission = inbox_.Admit(places, budget_);
    for (Submission& s : admission.admitted) {
      places -= s.need.sequences;
      Start(std::move(s));
    }
    crowded_ = admission.crowded;
    if (!ReportIsDue(admission)) break;
    budget_.ReportShortage(admission.wanted);
  }
  Reap();
}

bool Loop::ReportIsDue(const Inbox::Admission& admission) {
  const bool same = admission.head == reported_head_ && budget_.shortage();
  reported_head_ = admission.head;
  return admission.head != 0 && !same;
}

void Loop::Start(Submission submission) {
  Model& model = runners_[submission.model].model();
  const RequestHandle handle = submission.handle;
  running_.push_back(std::make_unique<ActiveRequest>(std::move(submission), model, budget_));
  ActiveRequest& request = *running_.back();
  request.Start([this, handle](absl::StatusOr<HeldState> filled) {
    inbox_.Filled(handle, std::move(filled));
  });
  if (request.filling()) {
    ++fills_;
  } else {
    CountStart(request);
  }
}

void Loop::ChargeOwners() {
  std::vector<Inbox::Served> served;
  for (const auto& r : running_) {
    if (const int64_t tokens = r->TakeUncharged(); tokens > 0) {
      served.push_back({&r->request().owner, tokens});
    }
  }
  if (!served.empty()) inbox_.Charge(served);
}

void Loop::CountStart(const ActiveRequest& request) {
  if (!request.started()) return;
  totals_.prompt_tokens += request.usage().prompt_tokens;
  if (request.request().purpose == Purpose::kGenerate) {
    totals_.queue_time.Add(Seconds(std::chrono::steady_clock::now() - request.submitted()));
  }
  if (request.request().start) totals_.prefill_tokens_reused += request.request().start->position;
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
    r->NotePaused(!views.back().ready && !r->filling(), now);
  }
  return views;
}

void Loop::Reap(const std::vector<std::pair<Submission, absl::Status>>& ended) {
  const auto done = std::stable_partition(running_.begin(), running_.end(),
                                          [](const auto& r) { return !r->done(); });
  const std::vector<std::unique_ptr<ActiveRequest>> finished(
      std::make_move_iterator(done), std::make_move_iterator(running_.end()));
  running_.erase(done, running_.end());
  for (const auto& r : finished) Diagnose(*r);
  for (const auto& [submission, status] : ended) Count(status);
  for (const auto& r : finished) {
    Count(r->outcome());
    if (r->outcome().ok() && r->request().purpose == Purpose::kGenerate) {
      totals_.e2e_latency.Add(Seconds(std::chrono::steady_clock::now() - r->submitted()));
    }
  }
  // Whoever hears of the end finds it in the figures.
  Publish();
  for (const auto& [submission, status] : ended) {
    submission.request.sink->OnDone(
        status, {.prompt_tokens = static_cast<int64_t>(submission.request.prompt.size())});
  }
  for (const auto& r : finished) TellEnd(*r);
  if (!finished.empty()) reported_head_ = 0;  // what it kept may be given back
  if (const auto count = ended.size() + finished.size(); count > 0) {
    inbox_.Done(static_cast<int64_t>(count));
  }
}

void Loop::Diagnose(ActiveRequest& request) {
  if (!absl::IsInternal(request.outcome())) return;
  const absl::Status health = runners_[request.model()].model().Health();
  if (health.ok()) return;
  const absl::Status failure = absl::UnavailableError(
      absl::StrCat(health.message(), " (", request.outcome().message(), ")"));
  request.Diagnose(failure);
  inbox_.Fail(failure);
}

void Loop::TellEnd(ActiveRequest& request) {
  RequestSink& sink = *request.request().sink;
  if (std::optional<Continuation> kept = request.TakeKept()) sink.OnKept(*std::move(kept));
  sink.OnDone(request.outcome(), request.usage());
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
  std::vector<ModelUse> of_models;
  of_models.reserve(runners_.size());
  for (const ModelRunner& runner : runners_) {
    of_models.push_back({.reads = runner.model().state_reads()});
  }
  for (const auto& r : running_) {
    const Need reserved = r->Reserved();
    stats.sequences_running += reserved.sequences;
    stats.state_bytes_reserved += reserved.state_bytes;
    stats.state_bytes += r->StateBytes();
    of_models[r->model()].sequences_running += reserved.sequences;
  }
  stats.requests_running = static_cast<int64_t>(running_.size());
  const std::lock_guard lock(mutex_);
  published_ = stats;
  published_of_models_ = std::move(of_models);
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

Loop::ModelUse Loop::model_use(size_t model) const {
  const std::lock_guard lock(mutex_);
  return published_of_models_[model];
}

}  // namespace tvq
