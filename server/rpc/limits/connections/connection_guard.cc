#include "server/rpc/limits/connections/connection_guard.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "server/rpc/limits/connections/channelz.h"
#include "server/rpc/limits/connections/close_connections.h"
#include "server/rpc/limits/connections/socket_address.h"

namespace tvq {
namespace {

using std::chrono::steady_clock;

// A storm brings some 50,000 streams a second, each of which takes 13 kB until it is taken apart.
constexpr std::chrono::milliseconds kPeriod{10};

// Looking at the connections takes at most one part in so many of a core's time.
constexpr int kShareOfTime = 5;

constexpr std::chrono::seconds kBetweenLines{1};

// So few calls more are not worth a look at the connections.
int64_t CallsWorthALook(const ConnectionLimits& limits) {
  const double resets = limits.max_resets_per_second / ResetLimiter::kLess;
  return resets > 0 ? std::max(int64_t{1}, static_cast<int64_t>(resets)) : limits.max_streams / 4;
}

}  // namespace

ConnectionGuard::ConnectionGuard(const ConnectionLimits& limits)
    : calls_worth_a_look_(CallsWorthALook(limits)),
      limiter_(limits),
      ticker_(kPeriod, [this] { Look(); }) {}

void ConnectionGuard::Look() {
  const Time begin = steady_clock::now();
  if (begin < next_look_) return;
  const int64_t calls = CallsStarted();
  if (calls - calls_ < calls_worth_a_look_) return;
  calls_ = calls;
  const auto verdicts = limiter_.Look(OpenConnections(), steady_clock::now());
  if (!verdicts.empty()) Close(verdicts, begin);
  const Time end = steady_clock::now();
  next_look_ = end + (kShareOfTime - 1) * (end - begin);
}

void ConnectionGuard::Close(const std::vector<ResetLimiter::Verdict>& verdicts, Time now) {
  std::vector<Connection> connections;
  connections.reserve(verdicts.size());
  for (const auto& verdict : verdicts) connections.push_back(verdict.connection);
  closed_ += CloseConnections(connections);
  if (now < next_line_) return;
  next_line_ = now + kBetweenLines;
  Log(verdicts.front());
}

void ConnectionGuard::Log(const ResetLimiter::Verdict& verdict) const {
  const bool resets = verdict.reason == ResetLimiter::Reason::kResets;
  spdlog::warn("closed the connection of {}: {} streams {}; {} closed since the start",
               ToString(verdict.connection.peer), verdict.count,
               resets ? "opened and reset in a second or less (--max-resets-per-second)"
                      : "live at once, with others of its host (--max-streams-per-connection)",
               closed_.load());
}

}  // namespace tvq
