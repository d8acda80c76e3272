#include "server/startup/watchdog.h"

#include <algorithm>
#include <utility>

namespace tvq {

namespace {

std::chrono::milliseconds Period(std::chrono::nanoseconds timeout) {
  const auto quarter = std::chrono::ceil<std::chrono::milliseconds>(timeout / 4);
  return std::min<std::chrono::milliseconds>(quarter, std::chrono::seconds(1));
}

}  // namespace

bool MakesProgress(std::optional<SteadyTime> step_began, SteadyTime now,
                   std::chrono::nanoseconds timeout) {
  return !step_began || now - *step_began <= timeout;
}

Watchdog::Watchdog(Watched watched, std::chrono::nanoseconds timeout)
    : watched_(std::move(watched)),
      timeout_(timeout.count() == 0 ? std::chrono::nanoseconds::max() : timeout),
      ticker_(Period(timeout_), [this] { Look(); }) {}

void Watchdog::Look() {
  const auto step_began = watched_.step_began();  // before `now`, or a step could begin later
  const bool moves = MakesProgress(step_began, watched_.now(), timeout_);
  if ((moves && watched_.health().ok()) == progressing_) return;
  progressing_ = !progressing_;
  watched_.on_change(progressing_);
}

}  // namespace tvq
