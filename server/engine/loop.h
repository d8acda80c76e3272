// The engine's one thread.
#ifndef TVQ_SERVER_ENGINE_LOOP_H_
#define TVQ_SERVER_ENGINE_LOOP_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/engine/active_request.h"
#include "server/engine/engine.h"
#include "server/engine/engine_stats.h"
#include "server/engine/inbox.h"
#include "server/engine/model_runner.h"
#include "server/engine/scheduler.h"

namespace tvq {

// admit -> plan -> run -> deliver, until the inbox says stop.
class Loop {
 public:
  // `room` is what may run at once; a request that its reader pauses for `paused_timeout` is ended.
  // The inbox must outlive the loop.
  Loop(Inbox& inbox, std::vector<ModelRunner> runners, Scheduler scheduler, Need room,
       std::chrono::milliseconds paused_timeout);

  // Returns when every accepted request is done and the inbox said stop.
  void Run();

  // Any thread. Without what the inbox and Submit count.
  EngineStats stats() const;
  int64_t SequencesRunning(size_t model) const;

 private:
  void Retire(Inbox::News news, SteadyTime now);
  void Admit();
  // Also notes who is paused since when.
  std::vector<RunningView> Views(SteadyTime now);
  // Whether the request is paused, and has been for too long.
  bool PausedTooLong(const ActiveRequest& request, SteadyTime now) const;
  // Lets go of requests that are done, `ended` among them, and then tells their sinks.
  void Reap(const std::vector<std::pair<Submission, absl::Status>>& ended = {});
  void Count(const absl::Status& outcome);
  void Publish();
  // When the loop has to wake if nothing happens.
  SteadyTime FirstDeadline() const;

  Inbox& inbox_;
  std::vector<ModelRunner> runners_;
  Scheduler scheduler_;
  const Need room_;
  const std::chrono::milliseconds paused_timeout_;
  std::vector<std::unique_ptr<ActiveRequest>> running_;  // in the order of admission
  EngineStats totals_;

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  EngineStats published_;
  std::vector<int64_t> sequences_per_model_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_LOOP_H_
