#ifndef TVQ_SERVER_RPC_LIMITS_CONNECTIONS_WATCHED_H_
#define TVQ_SERVER_RPC_LIMITS_CONNECTIONS_WATCHED_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "server/rpc/limits/connections/connection.h"
#include "server/rpc/limits/connections/connection_limits.h"

namespace tvq {

// What came lately: streams that were opened and reset, in leaky buckets, and bytes.
struct Lately {
  using Time = std::chrono::steady_clock::time_point;

  double opened = 0;
  double reset = 0;
  double bytes = 0;  // half of them are old after a second
  Time at;

  void Leak(double per_second, Time now);
  // A stream that is reset costs its client nothing and the server a call, so only streams count
  // that were both: a client may give up all of many old streams at once, and open many that it
  // does not reset.
  double churn() const { return std::min(opened, reset); }
};

// A connection, from look to look.
struct Watched {
  using Time = Lately::Time;

  // gRPC may list connections that have ended as long as it lives. A connection counts as ended if
  // it was closed, by us or by its client, and has done nothing for this long: gRPC needs some
  // seconds to clean up after a storm.
  static constexpr std::chrono::seconds kGone{20};
  // What still brings bytes so long after it was closed is open: no descriptor was free for that.
  static constexpr std::chrono::seconds kClosing{1};

  Connection seen;  // last
  Lately lately;
  // Bytes that came since all requests had come whole, as far as those that have not can have them.
  int64_t under_way = 0;
  int64_t surplus = 0;         // the most messages beyond streams that have been
  std::optional<Time> closed;  // since when; gRPC is yet to find out
  Time changed;                // when it was last seen to do anything

  // `barren` counts bytes that were read since the client last began a stream, sent a whole message
  // or gave up a stream. kBarrenAtOnce may come at once, then kBarrenPerSecond in each second, and
  // kBarrenPerSent for each message that goes to the client, which answers windows and pings. The
  // messages that may be under way, one on each stream, may come, too. After a message gRPC may
  // wait for the bytes of one more, 4 MiB at most, before it looks at what they are. More are
  // frames that ask for nothing.
  static constexpr double kBarrenAtOnce = 256 << 10;
  static constexpr double kBarrenPerSecond = 64 << 10;
  static constexpr double kBarrenPerSent = 64;
  static constexpr double kReadAhead = 4 << 20;
  static constexpr int64_t kMostExpected = 8;  // messages
  static constexpr double kMostUsualFraming = 1.25;
  double barren = 0;
  int64_t expected = 0;  // the most streams that have been live at once since then
  bool IsBarren(double max_message_bytes) const {
    const double messages = static_cast<double>(expected) * kMostUsualFraming * max_message_bytes;
    return barren > kBarrenAtOnce + (seen.messages > 0 ? kReadAhead : 0) + messages;
  }

  // Returns what came since the last time. Its bytes are 0 if no descriptor was left to count them.
  Lately See(Connection connection, const ConnectionLimits& limits, Time now);

  bool HasGone(Time now) const { return (closed || seen.ended) && now - changed > kGone; }
  double bytes() const { return static_cast<double>(under_way); }
  double new_bytes() const { return std::min(lately.bytes, bytes()); }
  double churn() const { return lately.churn(); }
  double live() const { return static_cast<double>(seen.live()); }
  // Calls that were answered, and messages of answers; never 0. A gateway has many of both for each
  // stream that it has open.
  double served() const { return 1.0 + static_cast<double>(seen.succeeded + seen.sent); }
  double new_live() const { return std::min(lately.opened, live()); }

 private:
  // Requests that have not come whole.
  int64_t CountUnfinished(const Connection& connection);
  void CountBarren(const Connection& connection, double seconds);
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LIMITS_CONNECTIONS_WATCHED_H_
