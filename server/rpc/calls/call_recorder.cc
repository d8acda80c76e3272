#include "server/rpc/calls/call_recorder.h"

namespace tvq {
void CallRecorder::Finished(const FinishedCall& call) {
  {
    const MutexLock lock(&mutex_);
    ++finished_[{call.method.name, call.status.code()}];
    if (!call.status.ok()) ++rejected_[RefusalOf(call.status).reason];
  }
  if (log_) log_(call);
}

CallCounts CallRecorder::counts() const {
  CallCounts counts;
  const MutexLock lock(&mutex_);
  for (const auto& [key, count] : finished_) {
    counts.finished.push_back({key.first, absl::StatusCodeToString(key.second), count});
  }
  for (const auto& [reason, count] : rejected_) counts.rejected.push_back({reason, count});
  return counts;
}

}  // namespace tvq
