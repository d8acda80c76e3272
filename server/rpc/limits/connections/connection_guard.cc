#include "server/rpc/limits/connections/connection_guard.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <ctime>
#include <utility>
#include <vector>

#include "base/resident_bytes.h"
#include "server/rpc/limits/connections/channelz.h"
#include "server/rpc/limits/connections/close_connections.h"
#include "server/rpc/limits/connections/process_sockets.h"
#include "server/rpc/limits/connections/socket_address.h"

namespace tvq {
namespace {

using std::chrono::steady_clock;

// A storm brings some 50,000 streams a second, each of which takes 13 kB until it is taken apart.
constexpr std::chrono::milliseconds kPeriod{10};

// Looking at the connections takes at most 1/kShareOfTime of a core's time. Time in which other
// threads have the cores does not count; in a storm that is most of the time.
constexpr int kShareOfTime = 5;

// But the pause after a look is at most this long. With --max-connections (4,096) a look takes some
// 90 ms, and a storm brings fewer streams between two looks than may be live at once.
constexpr std::chrono::milliseconds kLongestPause{100};

// Memory that has come. Bytes of requests may be the cause.
constexpr int64_t kWorthALook = int64_t{8} << 20;

// How often to look if neither calls nor memory ask for it, in at most 1/kUnaskedShareOfTime of a
// core's time: bytes of requests may fill memory that this process has freed but kept.
constexpr std::chrono::milliseconds kUnasked{250};
constexpr int kUnaskedShareOfTime = 20;

constexpr std::chrono::seconds kBetweenLines{1};

// That this thread has had of a core.
std::chrono::nanoseconds ThreadTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// So few calls more are not worth a look at the connections.
int64_t CallsWorthALook(const ConnectionLimits& limits) {
  const double resets = limits.max_resets_per_second * kAfterStorm;
  return resets > 0 ? std::max(int64_t{1}, static_cast<int64_t>(resets)) : limits.max_streams / 4;
}

const char* What(ResetLimiter::Reason reason) {
  switch (reason) {
    case ResetLimiter::Reason::kResets:
      return "streams opened and reset in a second or less (--max-resets-per-second)";
    case ResetLimiter::Reason::kStreams:
      return "streams live at once, with others of its network (--max-streams-per-connection)";
    case ResetLimiter::Reason::kBytes:
      return "bytes of requests under way, of too many of clients without a key "
             "(--max-connection-bytes)";
    case ResetLimiter::Reason::kBarren:
      return "bytes that brought neither a call nor a whole message: frames that ask for nothing";
    case ResetLimiter::Reason::kCrowd:
      return "streams, of too many that clients without a key opened together, or reset";
  }
  return "";
}

// Of a client of a server without keys. Any answer counts, also that a method does not exist, and
// one that is under way.
Standing StandingWithoutKeys(const Connection& connection) {
  const int64_t answered = connection.succeeded + (connection.sent > 0 ? 1 : 0);
  return answered > connection.failed ? Standing::kCaller : Standing::kUnknown;
}

}  // namespace

std::chrono::nanoseconds PauseAfterLook(std::chrono::nanoseconds took) {
  return std::min<std::chrono::nanoseconds>((kShareOfTime - 1) * took, kLongestPause);
}

ConnectionGuard::ConnectionGuard(const ConnectionLimits& limits, Admission* admission,
                                 KeyHolders* key_holders)
    : calls_worth_a_look_(CallsWorthALook(limits)),
      admission_(admission),
      key_holders_(key_holders),
      limiter_(limits),
      ticker_(kPeriod, [this] { Look(); }) {}

void ConnectionGuard::Look() {
  const Time begin = steady_clock::now();
  if (begin < next_look_) return;
  const int64_t calls = CallsStarted();
  const int64_t resident = ResidentBytes();
  if (alert_ || begin >= look_by_ || calls - calls_ >= calls_worth_a_look_ ||
      resident - resident_ >= kWorthALook) {
    calls_ = calls;
    LookAtConnections(begin);
    resident_ = resident;
  } else {
    admission_->Looked({});
    resident_ = std::min(resident_, resident);
  }
}

void ConnectionGuard::LookAtConnections(Time begin) {
  const auto used = ThreadTime();
  const auto verdicts = limiter_.Look(Open(), steady_clock::now());
  if (!verdicts.empty()) Close(verdicts, begin);
  const Time end = steady_clock::now();
  Admission::Sight sight{.crowded = limiter_.IsCrowded(), .wary = limiter_.WaryNetworks(end)};
  alert_ = !sight.calm();
  admission_->Looked(std::move(sight));
  const auto took = ThreadTime() - used;
  next_look_ = end + PauseAfterLook(took);
  look_by_ = end + std::max<std::chrono::nanoseconds>(kUnasked, kUnaskedShareOfTime * took);
}

std::vector<Connection> ConnectionGuard::Open() const {
  // Before the calls are counted: what came is of calls that have begun.
  const SocketBytes bytes;
  std::vector<Connection> open = OpenConnections();
  bytes.CountFor(&open);
  for (Connection& connection : open) {
    connection.standing = key_holders_ == nullptr ? StandingWithoutKeys(connection)
                                                  : key_holders_->StandingOf(connection);
  }
  if (key_holders_ != nullptr) key_holders_->Forget(open);
  return open;
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
  spdlog::warn("closed the connection of {}: {} {}; {} closed since the start",
               ToString(verdict.connection.peer), verdict.count, What(verdict.reason),
               closed_.load());
}

}  // namespace tvq
