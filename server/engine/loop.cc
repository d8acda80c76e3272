#include "server/engine/loop.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "server/engine/sequence/prompt_lookup.h"

namespace tvq {

Loop::Loop(Inbox& inbox, StateBudget& budget, std::vector<ModelRunner> runners, Scheduler scheduler,
           const EngineOptions& options)
    : inbox_(inbox),
      budget_(budget),
      runners_(std::move(runners)),
      scheduler_(std::move(scheduler)),
      stream_interval_(options.stream_interval),
      paused_timeout_(options.paused_timeout),
      draft_memory_(options.max_num_seqs * PromptLookup::kMostBytes),
      running_({.sequences = MaxAdmittedSeqs(options),
                .state_bytes = budget.total(),
                .prompt_tokens = options.max_num_queued_tokens},
               runners_.size()),
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
      for (const RequestHandle handle : news.let_go) running_.LetGo(handle);
      if (news.woken) Resume();
    }
    Admit(now);
    const StepPlan plan = Plan(now);
    if (plan.empty()) {
      if (!stop || fills_ > 0) Wait();
      continue;
    }
    ++totals_.steps;
    Compute(plan);
    Publish();
  }
}

void Loop::Wait() {
  totals_.step_began.reset();
  Publish();
  inbox_.Wait(FirstDeadline());
}

void Loop::Retire(const Inbox::News& news) {
  // Read after the news, so that a request cancelled because its deadline passed ends as late.
  const SteadyTime now = std::chrono::steady_clock::now();
  if (running_.first_pause() <= now - paused_timeout_) Resume();
  const auto end = [this](ActiveRequest& request, const absl::Status& status) {
    if (request.done()) return;
    request.End(status);
    Settle(request);
  };
  for (ActiveRequest* r : running_.Late(now)) {
    end(*r, Refused(Reason::kDeadlinePassed, "the deadline passed while the request ran"));
  }
  for (const RequestHandle handle : news.cancelled) {
    ActiveRequest* const r = running_.Find(handle);
    if (r == nullptr || r->done()) continue;
    r->Cancel();
    Settle(*r);
  }
  for (ActiveRequest* r : running_.PausedSince(now - paused_timeout_)) {
    end(*r, Refused(Reason::kClientStalled,
                    absl::StrCat("the reader took nothing of the waiting output for ",
                                 paused_timeout_.count(), " ms")));
  }
  if (news.abort) {
    for (ActiveRequest* r : running_.All()) end(*r, *news.abort);
  }
  Reap(news.ended);
}

void Loop::TakeFilled(Inbox::News& news) {
  if (news.filled.empty()) return;
  for (auto& [handle, filled] : news.filled) {
    --fills_;
    ActiveRequest* const request = running_.Find(handle);
    if (request == nullptr) {           // it ended meanwhile
      filled = absl::CancelledError();  // gives the state back
      running_.LetGo(handle);
      continue;
    }
    request->OnFilled(std::move(filled));
    CountStart(*request);
    Settle(*request);
  }
  Reap();
}

void Loop::Resume() {
  for (const RequestHandle handle : running_.TakeResumed()) {
    scheduler_.Resume(handle);
    ActiveRequest& request = *running_.Find(handle);
    if (!request.echoes()) continue;
    request.SendEcho();
    Settle(request);
  }
}

void Loop::Admit(SteadyTime now) {
  while (true) {
    Inbox::Admission admission = inbox_.Admit(running_.occupancy(), budget_, now);
    for (Submission& s : admission.admitted) Start(std::move(s));
    crowded_ = admission.crowded;
    look_again_ = admission.look_again;
    if (!ReportIsDue(admission.shortage)) break;
    budget_.ReportShortage(admission.shortage.wanted);
  }
  Reap();
}

bool Loop::ReportIsDue(const Inbox::Shortage& shortage) {
  const bool same = shortage.request == reported_ && budget_.shortage();
  reported_ = shortage.request;
  return shortage.request != 0 && !same;
}

void Loop::Start(Submission submission) {
  Model& model = runners_[submission.model].model();
  const RequestHandle handle = submission.handle;
  const Need need = submission.need;
  scheduler_.Add(handle, {.model = submission.model,
                          .owner = submission.request.owner,
                          .limits = submission.request.owner_limits,
                          .priority = submission.request.priority});
  ActiveRequest& request = running_.Add(
      std::make_unique<ActiveRequest>(std::move(submission), model, budget_, draft_memory_), need);
  request.Start([this, handle](absl::StatusOr<HeldState> filled) {
    inbox_.Filled(handle, std::move(filled));
  });
  if (request.filling()) {
    ++fills_;
  } else {
    CountStart(request);
  }
  Settle(request);
}

StepPlan Loop::Plan(SteadyTime now) {
  const auto ready = [this](uint64_t handle) {
    return running_.Find(handle)->request().sink->WantsMore();
  };
  StepPlan plan = scheduler_.Plan(ready);
  for (const uint64_t handle : plan.paused) running_.Pause(handle, now);
  return plan;
}

void Loop::Compute(const StepPlan& plan) {
  ModelRunner::Step step{.draft_rows = plan.draft_rows};
  step.decode.reserve(plan.decode.size());
  for (const DecodeRows& d : plan.decode) step.decode.push_back({running_.Find(d.request), d.rows});
  step.prefill.reserve(plan.prefill.size());
  for (const PrefillAdvance& a : plan.prefill) {
    step.prefill.push_back({running_.Find(a.request), a.tokens});
  }
  const int64_t interval = crowded_ || plan.crowded ? stream_interval_ : 1;
  const auto on_part = [this](std::span<const ModelRunner::Turn> computed) {
    ChargeOwners(computed);
    for (const ModelRunner::Turn& turn : computed) Settle(*turn.request);
    // Figures are published at the step's end, or here, before a sink hears of its request's end.
    if (!done_.empty()) Reap();
  };
  const SteadyTime begin = std::chrono::steady_clock::now();
  runners_[plan.model].Run(step, interval, totals_, on_part);
  const auto took = std::chrono::steady_clock::now() - begin;
  scheduler_.Took(std::chrono::duration_cast<std::chrono::microseconds>(took).count());
}

void Loop::ChargeOwners(std::span<const ModelRunner::Turn> computed) {
  std::vector<Inbox::Served> served;
  for (const ModelRunner::Turn& turn : computed) {
    if (const int64_t tokens = turn.request->TakeUncharged(); tokens > 0) {
      served.push_back({&turn.request->request().owner, tokens});
    }
  }
  if (!served.empty()) inbox_.Charge(served);
}

void Loop::Settle(ActiveRequest& request) {
  running_.Recount(request);
  if (!request.done()) {
    scheduler_.SetWork(request.handle(), request.work());
    if (request.echoes()) {
      running_.Pause(request.handle(), std::chrono::steady_clock::now());
    }
    return;
  }
  scheduler_.Remove(request.handle());
  done_.push_back(request.handle());
}

void Loop::CountStart(const ActiveRequest& request) {
  if (!request.started()) return;
  totals_.prompt_tokens += request.usage().prompt_tokens;
  if (request.request().purpose == Purpose::kGenerate) {
    totals_.queue_time.Add(Seconds(std::chrono::steady_clock::now() - request.submitted()));
  }
  if (request.request().start) totals_.prefill_tokens_reused += request.request().start->position;
}

void Loop::Reap(const std::vector<std::pair<Submission, absl::Status>>& ended) {
  std::vector<std::unique_ptr<ActiveRequest>> finished;
  finished.reserve(done_.size());
  for (const RequestHandle handle : done_) finished.push_back(running_.Remove(handle));
  done_.clear();
  for (const auto& r : finished) {
    Diagnose(*r);
    if (r->uncomputed() > 0) inbox_.GiveBack(r->request().owner, r->charge(), r->uncomputed());
  }
  for (const auto& [submission, status] : ended) Count(status);
  for (const auto& r : finished) {
    Count(r->outcome());
    if (r->outcome().ok() && r->request().purpose == Purpose::kGenerate) {
      totals_.e2e_latency.Add(Seconds(std::chrono::steady_clock::now() - r->submitted()));
    }
  }
  // A client that is told of the end finds it in the figures.
  Publish();
  for (const auto& [submission, status] : ended) {
    submission.request.sink->OnEnd(
        status, {.prompt_tokens = static_cast<int64_t>(submission.request.prompt.size())});
  }
  for (const auto& r : finished) TellEnd(*r);
  if (!finished.empty()) reported_ = 0;  // what it kept may be given back
  if (const auto count = ended.size() + finished.size(); count > 0) {
    inbox_.Done(static_cast<int64_t>(count));
  }
}

void Loop::Diagnose(ActiveRequest& request) {
  if (!absl::IsInternal(request.outcome())) return;
  const absl::Status health = runners_[request.model()].model().Health();
  if (health.ok()) return;
  const absl::Status failure = Refused(
      Reason::kUnavailable, absl::StrCat(health.message(), " (", request.outcome().message(), ")"));
  request.Diagnose(failure);
  inbox_.Fail(failure);
}

void Loop::TellEnd(ActiveRequest& request) {
  RequestSink& sink = *request.request().sink;
  if (std::optional<Continuation> kept = request.TakeKept()) {
    const auto let_go = [this, handle = request.handle()](const void*) { inbox_.LetGo(handle); };
    kept->claim = std::shared_ptr<const void>(nullptr, let_go);
    sink.OnKept(*std::move(kept));
  }
  sink.OnEnd(request.outcome(), request.usage());
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
  for (size_t m = 0; m < runners_.size(); ++m) {
    of_models.push_back(
        {.sequences_running = running_.sequences_of(m), .reads = ReadTotals(runners_[m].model())});
  }
  stats.sequences_running = running_.reserved().sequences;
  stats.state_bytes_reserved = running_.reserved().state_bytes;
  stats.state_bytes = running_.state_bytes();
  stats.state_bytes_left = running_.left_bytes();
  stats.requests_running = running_.size();
  const MutexLock lock(&mutex_);
  published_ = stats;
  published_of_models_ = std::move(of_models);
}

SteadyTime Loop::FirstDeadline() const {
  const SteadyTime pause = running_.first_pause();
  const SteadyTime too_long = pause == SteadyTime::max() ? pause : pause + paused_timeout_;
  return std::min({running_.first_deadline(), too_long, look_again_});
}

EngineStats Loop::stats() const {
  const MutexLock lock(&mutex_);
  return published_;
}

Loop::ModelUse Loop::model_use(size_t model) const {
  const MutexLock lock(&mutex_);
  return published_of_models_[model];
}

}  // namespace tvq
