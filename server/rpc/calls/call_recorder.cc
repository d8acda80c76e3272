#include "server/rpc/calls/call_recorder.h"

namespace tvq {
namespace {

const char* Reason(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
      return "invalid_argument";
    case absl::StatusCode::kUnauthenticated:
      return "unauthenticated";
    case absl::StatusCode::kPermissionDenied:
      return "permission_denied";
    case absl::StatusCode::kNotFound:
      return "not_found";
    case absl::StatusCode::kResourceExhausted:
      return "capacity";
    case absl::StatusCode::kUnavailable:
      return "unavailable";
    case absl::StatusCode::kAborted:
      return "conflict";
    case absl::StatusCode::kDeadlineExceeded:
      return "deadline_exceeded";
    case absl::StatusCode::kCancelled:
      return "cancelled";
    default:
      return "other";
  }
}

}  // namespace

void CallRecorder::Finished(const FinishedCall& call) {
  {
    absl::MutexLock lock(&mutex_);
    ++finished_[{call.method.name, call.status.code()}];
  }
  if (log_) log_(call);
}

void CallRecorder::Rejected(const absl::Status& status, bool draining) {
  Rejected(absl::IsUnavailable(status) && draining ? "draining" : Reason(status.code()));
}

void CallRecorder::RejectedByRate() { Rejected("rate_limit"); }

void CallRecorder::Rejected(const char* reason) {
  absl::MutexLock lock(&mutex_);
  ++rejected_[reason];
}

CallCounts CallRecorder::counts() const {
  CallCounts counts;
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, count] : finished_) {
    counts.finished.push_back({key.first, absl::StatusCodeToString(key.second), count});
  }
  for (const auto& [reason, count] : rejected_) counts.rejected.push_back({reason, count});
  return counts;
}

}  // namespace tvq
