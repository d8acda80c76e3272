#include "server/engine/inbox.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

int64_t Tokens(const Submission& s) { return static_cast<int64_t>(s.request.prompt.size()); }

// What the owner is served for certain; the tokens that it generates are charged as they come.
int64_t FirstCharge(const Request& request) {
  const int64_t cached = request.start ? request.start->prompt_tokens : 0;
  return std::max<int64_t>(1, static_cast<int64_t>(request.prompt.size()) - cached);
}

absl::Status ShuttingDown() { return absl::UnavailableError("the server is shutting down"); }

}  // namespace

Inbox::Inbox(int64_t max_requests, int64_t max_tokens)
    : max_requests_(max_requests), max_tokens_(max_tokens) {}

absl::StatusOr<RequestHandle> Inbox::Push(Submission submission) {
  const std::lock_guard lock(mutex_);
  if (!failure_.ok()) return failure_;
  if (closed_) return ShuttingDown();
  const auto length = static_cast<int64_t>(queue_.size());
  if (length >= max_requests_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the queue is full: ", length, " requests wait, the limit is ", max_requests_));
  }
  const int64_t tokens = Tokens(submission);
  if (tokens > max_tokens_ - queued_tokens_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the queue is full: ", length, " requests with ", queued_tokens_, " prompt tokens wait, ",
        tokens, " more would exceed the limit of ", max_tokens_, " tokens"));
  }
  const RequestHandle handle = ++last_handle_;
  submission.handle = handle;
  queued_tokens_ += tokens;
  const Request& request = submission.request;
  order_.Push(handle, request.owner, request.priority, FirstCharge(request));
  if (request.deadline != SteadyTime::max()) deadlines_.emplace(request.deadline, handle);
  queue_.emplace(handle, std::move(submission));
  ++accepted_;
  Ring();
  return handle;
}

void Inbox::Cancel(RequestHandle handle) {
  const std::lock_guard lock(mutex_);
  if (queue_.contains(handle)) {
    End(handle, absl::CancelledError("the request was cancelled"));
  } else {
    news_.cancelled.push_back(handle);
  }
  Ring();
}

void Inbox::Filled(RequestHandle handle, absl::StatusOr<HeldState> filled) {
  const std::lock_guard lock(mutex_);
  news_.filled.emplace_back(handle, std::move(filled));
  Ring();
}

void Inbox::Wake() {
  const std::lock_guard lock(mutex_);
  Ring();
}

void Inbox::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

void Inbox::Fail(absl::Status failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_.ok()) return;
  failure_ = std::move(failure);
  EndAll(failure_);
}

absl::Status Inbox::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Inbox::Abort(bool stop) {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  news_.stop = news_.stop || stop;
  EndAll(ShuttingDown());
}

bool Inbox::WaitUntilIdle(SteadyTime until) {
  std::unique_lock lock(mutex_);
  const auto idle = [this] { return accepted_ == 0; };
  // Libraries overflow on the largest time point.
  if (until == SteadyTime::max()) {
    idle_.wait(lock, idle);
    return true;
  }
  return idle_.wait_until(lock, until, idle);
}

int64_t Inbox::waiting() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(queue_.size());
}

Inbox::News Inbox::Take(SteadyTime now) {
  const std::lock_guard lock(mutex_);
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    End(deadlines_.begin()->second,
        absl::DeadlineExceededError("the deadline passed while the request waited"));
  }
  rung_ = false;
  return std::exchange(news_, News{});
}

Inbox::Admission Inbox::Admit(int64_t places, StateBudget& budget) {
  const std::lock_guard lock(mutex_);
  Admission result;
  while (places > 0) {  // else nobody's turn has come yet
    const std::optional<RequestHandle> head = order_.Head();
    if (!head) break;
    const Need& need = queue_.at(*head).need;
    if (need.sequences > places) break;
    std::optional<StateBudget::Share> share = budget.TryReserve(need.state_bytes);
    if (!share) {
      result.wanted = need.state_bytes;
      result.head = *head;
      break;
    }
    places -= need.sequences;
    order_.Pop();
    result.admitted.push_back(TakeOut(*head));
    result.admitted.back().share = *std::move(share);
  }
  result.crowded = !queue_.empty();
  return result;
}

void Inbox::Charge(std::span<const Served> served) {
  const std::lock_guard lock(mutex_);
  for (const Served& s : served) order_.Charge(*s.owner, s.tokens);
}

void Inbox::Wait(SteadyTime until) {
  std::unique_lock lock(mutex_);
  const SteadyTime wake = deadlines_.empty() ? until : std::min(until, deadlines_.begin()->first);
  const auto rung = [this] { return rung_; };
  if (wake == SteadyTime::max()) {
    bell_.wait(lock, rung);
  } else {
    bell_.wait_until(lock, wake, rung);
  }
}

void Inbox::Done(int64_t count) {
  const std::lock_guard lock(mutex_);
  accepted_ -= count;
  if (accepted_ == 0) idle_.notify_all();
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
  queued_tokens_ -= Tokens(submission);
  deadlines_.erase({submission.request.deadline, handle});
  return submission;
}

void Inbox::Ring() {
  rung_ = true;
  bell_.notify_one();
}

}  // namespace tvq
