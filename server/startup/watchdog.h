#ifndef TVQ_SERVER_STARTUP_WATCHDOG_H_
#define TVQ_SERVER_STARTUP_WATCHDOG_H_

#include <chrono>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "base/ticker.h"

namespace tvq {

using SteadyTime = std::chrono::steady_clock::time_point;

// Whether an engine that began its step at `step_began`, or waits for work if unset, makes
// progress: no step takes longer than `timeout`.
bool MakesProgress(std::optional<SteadyTime> step_began, SteadyTime now,
                   std::chrono::nanoseconds timeout);

// A thread that looks whether the engine makes progress and tells when that changes.
class Watchdog {
 public:
  struct Watched {
    std::function<std::optional<SteadyTime>()> step_began;  // of the step that is computed now
    std::function<SteadyTime()> now;
    // Not OK: it never makes progress again.
    std::function<absl::Status()> health = [] { return absl::OkStatus(); };
    // Called in the watchdog's thread; the engine is taken to make progress at first.
    std::function<void(bool)> on_change;
  };

  // Looks every quarter of `timeout`, but at least every second. Without a `timeout`, 0, steps may
  // take as long as they do.
  Watchdog(Watched watched, std::chrono::nanoseconds timeout);
  // on_change is not called afterwards.
  ~Watchdog() = default;

 private:
  void Look();

  const Watched watched_;
  const std::chrono::nanoseconds timeout_;
  bool progressing_ = true;
  Ticker ticker_;  // last: it uses all of the above
};

}  // namespace tvq

#endif  // TVQ_SERVER_STARTUP_WATCHDOG_H_
