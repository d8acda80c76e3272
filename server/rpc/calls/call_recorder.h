// What became of the calls: for logs and metrics.
#ifndef TVQ_SERVER_RPC_CALLS_CALL_RECORDER_H_
#define TVQ_SERVER_RPC_CALLS_CALL_RECORDER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/refusal.h"
#include "server/rpc/access/caller.h"

namespace tvq {

// A call that is over. Holds references: look, do not keep.
struct FinishedCall {
  const MethodInfo& method;
  const Caller& caller;
  const absl::Status& status;  // its message may quote a prompt
  absl::Duration took;
};

struct CallCounts {
  struct Finished {
    std::string method;  // "GenerationService/Generate"
    std::string code;    // "OK", "NOT_FOUND", ...
    int64_t count;
  };
  struct Rejected {
    Reason reason;
    int64_t count;
  };
  std::vector<Finished> finished;  // those that occurred
  std::vector<Rejected> rejected;  // of those, all that are not OK
};

// Any thread.
class CallRecorder {
 public:
  using Log = std::function<void(const FinishedCall&)>;

  explicit CallRecorder(Log log) : log_(std::move(log)) {}  // may be null

  // Every call of ours, once.
  void Finished(const FinishedCall& call);

  CallCounts counts() const;

 private:
  const Log log_;
  mutable Mutex mutex_;
  std::map<std::pair<std::string, absl::StatusCode>, int64_t> finished_ ABSL_GUARDED_BY(mutex_);
  std::map<Reason, int64_t> rejected_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_CALL_RECORDER_H_
