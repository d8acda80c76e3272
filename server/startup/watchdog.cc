#include "server/startup/watchdog.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"

namespace tvq {

bool MakesProgress(std::optional<SteadyTime> step_began, SteadyTime now,
                   std::chrono::nanoseconds timeout) {
  return !step_began || now - *step_began <= timeout;
}

Watchdog::Watchdog(Watched watched, std::chrono::nanoseconds timeout)
    : watched_(std::move(watched)), timeout_(timeout), thread_([this] { Loop(); }) {}

Watchdog::~Watchdog() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void Watchdog::Loop() {
  const absl::Duration period = std::min(absl::FromChrono(timeout_) / 4, absl::Seconds(1));
  bool progressing = true;
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), period)) return;
    }
    const auto step_began = watched_.step_began();  // before `now`, or a step could begin later
    if (MakesProgress(step_began, watched_.now(), timeout_) == progressing) continue;
    progressing = !progressing;
    watched_.on_change(progressing);
  }
}

}  // namespace tvq
