// The engine's one thread.
#ifndef TVQ_SERVER_ENGINE_LOOP_H_
#define TVQ_SERVER_ENGINE_LOOP_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "server/engine/engine.h"
#include "server/engine/engine_stats.h"
#include "server/engine/inbox.h"
#include "server/engine/model_runner.h"
#include "server/engine/scheduling/scheduler.h"
#include "server/engine/sequence/active_request.h"
#include "server/engine/sequence/running_requests.h"

namespace tvq {

// admit -> plan -> run -> deliver, until the inbox says stop.
class Loop {
 public:
  // Of the options it uses what is admitted at once, max_num_seqs, stream_interval and
  // paused_timeout. States take shares of `budget`. Inbox and budget must outlive the loop.
  Loop(Inbox& inbox, StateBudget& budget, std::vector<ModelRunner> runners, Scheduler scheduler,
       const EngineOptions& options);

  // Returns when every accepted request is done, every state that was to be filled came back, and
  // the inbox said stop.
  void Run();

  // Any thread. Without what the inbox and Submit count.
  EngineStats stats() const;
  struct ModelUse {
    int64_t sequences_running = 0;
    StateReadTotals reads;
  };
  ModelUse model_use(size_t model) const;

 private:
  // Ends what was cancelled or is late.
  void Retire(const Inbox::News& news);
  // Gives turns, or more of their echo, to those whose readers were behind and want more now.
  void Resume();
  void TakeFilled(Inbox::News& news);
  void Admit(SteadyTime now);
  // Whether the lack of bytes is still to be reported, or again.
  bool ReportIsDue(const Inbox::Shortage& shortage);
  void Start(Submission submission);
  StepPlan Plan(SteadyTime now);
  void Compute(const StepPlan& plan);
  // Charges owners for what their requests generated since the last time.
  void ChargeOwners(std::span<const ModelRunner::Turn> computed);
  // Counts a request that began to compute.
  void CountStart(const ActiveRequest& request);
  // Something happened to the request: says what it has to compute now, or notes that it is done.
  void Settle(ActiveRequest& request);
  // Lets go of requests that are done, `ended` among them, and then tells their sinks.
  void Reap(const std::vector<std::pair<Submission, absl::Status>>& ended = {});
  // If the request failed because its device did: makes its status say so; no more are accepted.
  void Diagnose(ActiveRequest& request);
  void TellEnd(ActiveRequest& request);
  void Count(const absl::Status& outcome);
  void Publish();
  void Wait();
  // When the loop has to wake if nothing happens.
  SteadyTime FirstDeadline() const;

  Inbox& inbox_;
  StateBudget& budget_;
  std::vector<ModelRunner> runners_;
  Scheduler scheduler_;
  const int64_t stream_interval_;
  const std::chrono::milliseconds paused_timeout_;
  ByteBudget draft_memory_;
  RunningRequests running_;
  std::vector<RequestHandle> done_;  // of running_, to be reaped
  bool crowded_ = false;             // requests wait for room
  int64_t fills_ = 0;                // states that others fill now
  RequestHandle reported_ = 0;       // whose shortage was reported last; 0 when a request has ended
  SteadyTime look_again_ = SteadyTime::max();  // at what waits
  EngineStats totals_;

  mutable Mutex mutex_;
  EngineStats published_ ABSL_GUARDED_BY(mutex_);
  std::vector<ModelUse> published_of_models_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_LOOP_H_
