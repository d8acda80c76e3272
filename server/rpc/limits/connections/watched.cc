#include "server/rpc/limits/connections/watched.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <tuple>
#include <utility>

namespace tvq {
namespace {

// At worst each byte of a request comes in a frame of its own, whose head of nine bytes gRPC keeps
// as long.
constexpr int64_t kMostFraming = 10;

double Seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

void Lately::Leak(double per_second, Time now) {
  const double seconds = Seconds(now - at);
  opened = std::max(0.0, opened - per_second * seconds);
  reset = std::max(0.0, reset - per_second * seconds);
  bytes *= std::exp2(-seconds);
  at = now;
}

Lately Watched::See(Connection connection, const ConnectionLimits& limits, Time now) {
  connection.bytes = std::max(connection.bytes, seen.bytes);
  const Lately fresh{.opened = static_cast<double>(connection.started - seen.started),
                     .reset = static_cast<double>(connection.failed - seen.failed),
                     .at = now};
  const int64_t came = connection.bytes - seen.bytes;
  const bool is_new = lately.at == Time();
  const double seconds = is_new ? 0 : Seconds(now - lately.at);
  lately.Leak(limits.max_resets_per_second, now);
  lately.opened += fresh.opened;
  lately.reset += fresh.reset;
  lately.bytes += static_cast<double>(came);
  const int64_t unfinished = CountUnfinished(connection);
  under_way = std::min(under_way + came, unfinished * kMostFraming * limits.max_message_bytes);
  CountBarren(connection, seconds);
  if (closed && came > 0 && now - *closed > kClosing) closed.reset();
  const auto counts = [](const Connection& c) {
    return std::tuple(c.started, c.succeeded, c.failed, c.bytes);
  };
  if (counts(connection) != counts(seen)) changed = now;
  seen = std::move(connection);
  return fresh;
}

// It is not known which request the bytes belong to. All requests have come whole if each stream
// that has not failed has had a message. But a stream may have several messages and then fail:
// these surplus messages must not hide a later request that is unfinished. A stream may also be
// answered without a message, so no more requests count as unfinished than streams are live.
int64_t Watched::CountUnfinished(const Connection& connection) {
  const int64_t beyond = connection.messages + connection.failed - connection.started;
  surplus = std::min(std::max(surplus, beyond), beyond + connection.live());
  return surplus - beyond;
}

void Watched::CountBarren(const Connection& connection, double seconds) {
  const auto of_client = [](const Connection& c) {
    return std::tuple(c.started, c.messages, c.failed);
  };
  if (of_client(connection) != of_client(seen)) {
    barren = 0;
    expected = 0;
  } else {
    const double usual = kBarrenPerSecond * seconds +
                         kBarrenPerSent * static_cast<double>(connection.sent - seen.sent);
    const int64_t read = std::max(int64_t{0}, connection.read() - seen.read());
    barren = std::max(0.0, barren + static_cast<double>(read) - usual);
  }
  expected = std::max(expected, std::min(connection.live(), kMostExpected));
}

}  // namespace tvq
