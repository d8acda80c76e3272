#include "server/engine/inbox.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/fair_share.h"
#include "base/refusal.h"

namespace tvq {
namespace {

int64_t Tokens(const Submission& s) { return s.need.prompt_tokens; }

// A named owner may have at most this many times what it leaves free in the queue (FairShare).
constexpr int64_t kQueueShare = 3;

// What the owner is served unless the request ends early; the tokens that it generates are charged
// as they come.
int64_t PromptTokens(const Request& request) {
  const int64_t cached = request.start ? request.start->prompt_tokens : 0;
  return std::max<int64_t>(1, static_cast<int64_t>(request.prompt.size()) - cached);
}

absl::Status ShuttingDown() { return Refused(Reason::kStopping, "the server is shutting down"); }

}  // namespace

Inbox::Inbox(int64_t max_requests, int64_t max_tokens)
    : max_requests_(max_requests), max_tokens_(max_tokens) {}

absl::StatusOr<RequestHandle> Inbox::Push(Submission submission) {
  const MutexLock lock(&mutex_);
  if (!failure_.ok()) return failure_;
  if (closed_) return ShuttingDown();
  if (auto status = CheckRoom(submission); !status.ok()) return status;
  const int64_t tokens = Tokens(submission);
  Waiting& waiting = waiting_[submission.request.owner];
  ++waiting.requests;
  waiting.tokens += tokens;
  const RequestHandle handle = ++last_handle_;
  submission.handle = handle;
  queued_tokens_ += tokens;
  state_bytes_.insert(submission.need.state_bytes);
  prompt_tokens_.insert(submission.need.prompt_tokens);
  ++changes_;
  const Request& request = submission.request;
  order_.Push(handle, request.owner, request.priority, PromptTokens(request));
  if (request.deadline != SteadyTime::max()) deadlines_.emplace(request.deadline, handle);
  queue_.emplace(handle, std::move(submission));
  ++accepted_;
  Ring();
  return handle;
}

absl::Status Inbox::CheckRoom(const Submission& submission) const {
  const auto length = static_cast<int64_t>(queue_.size());
  if (length >= max_requests_) {
    return Refused(Reason::kQueueFull,
                   absl::StrCat("the queue is full: ", length, " requests wait, the limit is ",
                                max_requests_));
  }
  const int64_t tokens = Tokens(submission);
  if (tokens > max_tokens_ - queued_tokens_) {
    return Refused(Reason::kQueueFull,
                   absl::StrCat("the queue is full: ", length, " requests with ", queued_tokens_,
                                " prompt tokens wait, ", tokens, " more would exceed the limit of ",
                                max_tokens_, " tokens"));
  }
  if (submission.request.owner.empty()) return absl::OkStatus();
  const FairShare requests(max_requests_, kQueueShare);
  const FairShare prompts(max_tokens_, kQueueShare);
  const auto it = waiting_.find(submission.request.owner);
  const Waiting mine = it == waiting_.end() ? Waiting{} : it->second;
  // One request of each owner waits as long as there is a place.
  const bool fair = mine.requests == 0
                        ? prompts.MayBegin(tokens, queued_tokens_)
                        : requests.MayHave(mine.requests + 1, length + 1) &&
                              prompts.MayHave(mine.tokens + tokens, queued_tokens_ + tokens);
  if (!fair) {
    return Refused(Reason::kQueueFull,
                   absl::StrCat("the queue is full for this key or address: ", mine.requests,
                                " of its requests with ", mine.tokens, " prompt tokens wait, of ",
                                length, " requests with ", queued_tokens_, " tokens; the rest of ",
                                max_requests_, " and ", max_tokens_, " is for others"));
  }
  return absl::OkStatus();
}

void Inbox::Cancel(RequestHandle handle) {
  const MutexLock lock(&mutex_);
  if (queue_.contains(handle)) {
    End(handle, Refused(Reason::kCancelled, "the request was cancelled"));
  } else {
    news_.cancelled.push_back(handle);
  }
  Ring();
}

void Inbox::Filled(RequestHandle handle, absl::StatusOr<HeldState> filled) {
  const MutexLock lock(&mutex_);
  news_.filled.emplace_back(handle, std::move(filled));
  Ring();
}

void Inbox::LetGo(RequestHandle handle) {
  const MutexLock lock(&mutex_);
  news_.let_go.push_back(handle);
  Ring();
}

void Inbox::Wake() {
  const MutexLock lock(&mutex_);
  news_.woken = true;
  Ring();
}

void Inbox::Close() {
  const MutexLock lock(&mutex_);
  closed_ = true;
}

void Inbox::Fail(absl::Status failure) {
  const MutexLock lock(&mutex_);
  if (!failure_.ok()) return;
  failure_ = std::move(failure);
  EndAll(failure_);
}

absl::Status Inbox::failure() const {
  const MutexLock lock(&mutex_);
  return failure_;
}

void Inbox::Abort(bool stop) {
  const MutexLock lock(&mutex_);
  closed_ = true;
  news_.stop = news_.stop || stop;
  EndAll(ShuttingDown());
}

bool Inbox::WaitUntilIdle(SteadyTime until) {
  const MutexLock lock(&mutex_);
  return idle_.AwaitUntil(
      &mutex_, until, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return accepted_ == 0; });
}

int64_t Inbox::waiting() const {
  const MutexLock lock(&mutex_);
  return static_cast<int64_t>(queue_.size());
}

Inbox::News Inbox::Take(SteadyTime now) {
  const MutexLock lock(&mutex_);
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    End(deadlines_.begin()->second,
        Refused(Reason::kDeadlinePassed, "the deadline passed while the request waited"));
  }
  rung_ = false;
  return std::exchange(news_, News{});
}

Inbox::Admission Inbox::Admit(Occupancy& occupancy, StateBudget& budget, SteadyTime now) {
  const MutexLock lock(&mutex_);
  Admission result;
  const bool changed = seen_ != See(occupancy, budget) || now >= reservation_.look_again();
  if (!queue_.empty() && changed) {
    reservation_.Look(occupancy, now);
    while (true) {
      seen_ = See(occupancy, budget);  // what changes from here on is for the next time
      const std::optional<RequestHandle> next = Next(occupancy, budget);
      if (!next) break;
      Start(*next, occupancy, budget, now, result);
    }
  }
  result.crowded = !queue_.empty();
  if (result.crowded) {
    result.shortage = shortage_;
    result.look_again = reservation_.look_again();
  }
  return result;
}

Inbox::Seen Inbox::See(const Occupancy& occupancy, const StateBudget& budget) const {
  return {.changes = changes_, .taken = occupancy.taken(), .bytes = budget.used()};
}

Waiter Inbox::WaiterOf(const Submission& submission) {
  return {.id = submission.handle,
          .owner = &submission.request.owner,
          .limits = &submission.request.owner_limits,
          .need = submission.need,
          .since = submission.submitted};
}

Need Inbox::LeastNeed() const {
  return {.sequences = 1,
          .state_bytes = *state_bytes_.begin(),
          .prompt_tokens = *prompt_tokens_.begin()};
}

std::optional<RequestHandle> Inbox::Next(const Occupancy& occupancy, const StateBudget& budget) {
  shortage_ = {};
  if (queue_.empty()) return std::nullopt;
  const Need least = LeastNeed();
  if (!occupancy.HasRoom(least, occupancy.taken())) return std::nullopt;  // for none of them
  const int64_t free = budget.total() - budget.used();
  using Visit = FairQueue::Visit;
  if (const auto holder = reservation_.holder()) {
    if (Consider(queue_.at(*holder), least, free, occupancy) == Visit::kTake) return holder;
  }
  return order_.Find([&](RequestHandle handle) {
    mutex_.AssertHeld();
    return Consider(queue_.at(handle), least, free, occupancy);
  });
}

FairQueue::Visit Inbox::Consider(const Submission& submission, const Need& least, int64_t free,
                                 const Occupancy& occupancy) {
  using Visit = FairQueue::Visit;
  const Waiter waiter = WaiterOf(submission);
  const Occupancy::Taken taken = occupancy.TakenWith(*waiter.owner);
  if (!occupancy.HasRoom(waiter.need, taken.all) ||
      !occupancy.MayTake(*waiter.owner, *waiter.limits, waiter.need, taken)) {
    reservation_.Offer(waiter);
    if (!occupancy.MayTake(*waiter.owner, *waiter.limits, least, taken)) return Visit::kNextOwner;
    return reservation_.HoldsUpOthers(waiter.id) ? Visit::kNext : Visit::kCannot;
  }
  if (!reservation_.MayStart(waiter)) return Visit::kNext;
  if (waiter.need.state_bytes <= free) return Visit::kTake;
  reservation_.Offer(waiter);
  if (shortage_.request == 0) {
    shortage_ = {.request = waiter.id, .wanted = waiter.need.state_bytes};
  }
  return least.state_bytes <= free ? Visit::kNext : Visit::kEnd;
}

void Inbox::Start(RequestHandle handle, Occupancy& occupancy, StateBudget& budget, SteadyTime now,
                  Admission& admission) {
  const Submission& submission = queue_.at(handle);
  const Waiter waiter = WaiterOf(submission);
  std::optional<StateBudget::Share> share = budget.TryReserve(waiter.need.state_bytes);
  if (!share) return;
  occupancy.Add(handle, *waiter.owner, waiter.need, now);
  reservation_.Started(waiter);
  const PromptCharge charge{.tokens = PromptTokens(submission.request), .end = order_.Pop(handle)};
  Submission& admitted = admission.admitted.emplace_back(TakeOut(handle));
  admitted.share = *std::move(share);
  admitted.charge = charge;
}

void Inbox::Charge(std::span<const Served> served) {
  const MutexLock lock(&mutex_);
  for (const Served& s : served) order_.Charge(*s.owner, s.tokens);
}

void Inbox::GiveBack(const std::string& owner, const PromptCharge& charge, int64_t tokens) {
  const MutexLock lock(&mutex_);
  order_.GiveBack(owner, charge.end, tokens);
}

void Inbox::Wait(SteadyTime until) {
  const MutexLock lock(&mutex_);
  const SteadyTime wake = deadlines_.empty() ? until : std::min(until, deadlines_.begin()->first);
  bell_.AwaitUntil(&mutex_, wake, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return rung_; });
}

void Inbox::Done(int64_t count) {
  const MutexLock lock(&mutex_);
  accepted_ -= count;
  if (accepted_ == 0) idle_.Notify();
}

void Inbox::EndAll(const absl::Status& status) {
  while (!queue_.empty()) End(queue_.begin()->first, status);
  news_.abort = status;
  Ring();
}

void Inbox::End(RequestHandle handle, const absl::Status& status) {
  order_.Remove(handle);
  news_.ended.emplace_back(TakeOut(handle), status);
}

Submission Inbox::TakeOut(RequestHandle handle) {
  Submission submission = std::move(queue_.extract(handle).mapped());
  const int64_t tokens = Tokens(submission);
  queued_tokens_ -= tokens;
  state_bytes_.erase(state_bytes_.find(submission.need.state_bytes));
  prompt_tokens_.erase(prompt_tokens_.find(submission.need.prompt_tokens));
  ++changes_;
  reservation_.Left(handle);
  const auto waiting = waiting_.find(submission.request.owner);
  waiting->second.tokens -= tokens;
  if (--waiting->second.requests == 0) waiting_.erase(waiting);
  deadlines_.erase({submission.request.deadline, handle});
  return submission;
}

void Inbox::Ring() {
  rung_ = true;
  bell_.NotifyOne();
}

}  // namespace tvq
