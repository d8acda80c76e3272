#include "server/engine/inbox.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

int64_t Tokens(const Submission& s) { return static_cast<int64_t>(s.request.prompt.size()); }

absl::Status ShuttingDown() { return absl::UnavailableError("the server is shutting down"); }

}  // namespace

Inbox::Inbox(int64_t max_requests, int64_t max_tokens)
    : max_requests_(max_requests), max_tokens_(max_tokens) {}

absl::StatusOr<RequestHandle> Inbox::Push(Submission submission) {
  const std::lock_guard lock(mutex_);
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
  submission.handle = ++last_handle_;
  queued_tokens_ += tokens;
  first_deadline_ = std::min(first_deadline_, submission.request.deadline);
  queue_.push_back(std::move(submission));
  ++accepted_;
  Ring();
  return last_handle_;
}

void Inbox::Cancel(RequestHandle handle) {
  const std::lock_guard lock(mutex_);
  const auto it = std::find_if(queue_.begin(), queue_.end(),
                               [&](const Submission& s) { return s.handle == handle; });
  if (it != queue_.end()) {
    End(it, absl::CancelledError("the request was cancelled"));
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

void Inbox::Abort(bool stop) {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  while (!queue_.empty()) End(queue_.begin(), ShuttingDown());
  news_.abort = true;
  news_.stop = news_.stop || stop;
  Ring();
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
  if (first_deadline_ <= now) {
    first_deadline_ = SteadyTime::max();
    for (size_t i = 0; i < queue_.size();) {
      const SteadyTime deadline = queue_[i].request.deadline;
      if (deadline <= now) {
        End(queue_.begin() + static_cast<std::ptrdiff_t>(i),
            absl::DeadlineExceededError("the deadline passed while the request waited"));
      } else {
        first_deadline_ = std::min(first_deadline_, deadline);
        ++i;
      }
    }
  }
  rung_ = false;
  return std::exchange(news_, News{});
}

Inbox::Admission Inbox::Admit(int64_t places, StateBudget& budget) {
  const std::lock_guard lock(mutex_);
  Admission result;
  while (!queue_.empty() && queue_.front().need.sequences <= places) {
    Submission& head = queue_.front();
    std::optional<StateBudget::Share> share = budget.TryReserve(head.need.state_bytes);
    if (!share) {
      result.missing =
          std::max<int64_t>(1, head.need.state_bytes - (budget.total() - budget.used()));
      result.head = head.handle;
      break;
    }
    places -= head.need.sequences;
    head.share = *std::move(share);
    queued_tokens_ -= Tokens(head);
    result.admitted.push_back(std::move(head));
    queue_.pop_front();
  }
  return result;
}

void Inbox::Wait(SteadyTime until) {
  std::unique_lock lock(mutex_);
  const SteadyTime wake = std::min(until, first_deadline_);
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

void Inbox::End(std::deque<Submission>::iterator it, absl::Status status) {
  queued_tokens_ -= Tokens(*it);
  news_.ended.emplace_back(std::move(*it), std::move(status));
  queue_.erase(it);
}

void Inbox::Ring() {
  rung_ = true;
  bell_.notify_one();
}

}  // namespace tvq
