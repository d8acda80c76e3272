#include "server/rpc/limits/connections/watched.h"

#include <tuple>
#include <utility>

namespace tvq {

void Lately::Leak(double per_second, Time now) {
  const double out = per_second * std::chrono::duration<double>(now - at).count();
  opened = std::max(0.0, opened - out);
  reset = std::max(0.0, reset - out);
  at = now;
}

Lately Watched::See(Connection connection, double per_second, Time now) {
  connection.bytes = std::max(connection.bytes, seen.bytes);
  const Lately fresh{.opened = static_cast<double>(connection.started - seen.started),
                     .reset = static_cast<double>(connection.failed - seen.failed),
                     .at = now};
  lately.Leak(per_second, now);
  lately.opened += fresh.opened;
  lately.reset += fresh.reset;
  CountBytes(connection);
  const auto counts = [](const Connection& c) {
    return std::tuple(c.started, c.succeeded, c.failed, c.bytes);
  };
  if (counts(connection) != counts(seen)) changed = now;
  seen = std::move(connection);
  return fresh;
}

// Of what came, nobody says which request it is of. All have come whole if each stream that has not
// failed has had a message. A stream may have several, and fail after one: what there is too much
// of, no later stream is spared.
void Watched::CountBytes(const Connection& connection) {
  const int64_t beyond = connection.messages + connection.failed - connection.started;
  surplus = connection.live() == 0 ? beyond : std::max(surplus, beyond);
  const int64_t came = std::max<int64_t>(0, connection.bytes - seen.bytes);
  under_way = beyond == surplus ? 0 : under_way + came;
}

}  // namespace tvq
