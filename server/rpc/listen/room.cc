#include "server/rpc/listen/room.h"

#include <fcntl.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/time/clock.h"
#include "base/network.h"
#include "server/rpc/limits/connections/channelz.h"
#include "server/rpc/limits/connections/close_connections.h"
#include "server/rpc/limits/connections/process_sockets.h"

namespace tvq {
namespace {

// Closed at once: looking for them takes as long for one as for many.
constexpr size_t kBatch = 64;

int64_t NewestOf(const std::vector<Connection>& open) {
  int64_t newest = 0;
  for (const Connection& one : open) newest = std::max(newest, one.id);
  return newest;
}

// On a server without keys all are the same.
Standing StandingOf(const Connection& connection, const KeyHolders* key_holders) {
  return key_holders == nullptr ? Standing::kUnknown : key_holders->StandingOf(connection);
}

bool CallsCount(const Connection& connection, bool keys) {
  return !keys || connection.standing == Standing::kKeyHolder;
}

}  // namespace

std::vector<Connection> IdlestConnections(std::vector<Connection> open, absl::Time now, bool keys) {
  // A call without a key may be open for ever: of health, or one whose message does not come.
  const auto used = [keys](const Connection& connection) {
    return connection.started > 0 && CallsCount(connection, keys);
  };
  std::erase_if(open, [&](const Connection& connection) {
    return used(connection) && (connection.live() > 0 || now - connection.last_used < kIdle);
  });
  std::ranges::sort(open, {}, [&](const Connection& connection) {
    const auto last_used = used(connection) ? connection.last_used : absl::InfinitePast();
    return std::tuple(used(connection), last_used, connection.id);
  });
  return open;
}

int CloseStillIdle(const std::vector<Connection>& chosen, size_t most, int64_t newest,
                   const KeyHolders* key_holders) {
  std::set<std::pair<std::string, int>> served;  // whose handshakes have ended since
  return CloseConnections(chosen, most, [&](const Connection& one) {
    if (one.id != 0) {
      const auto now = ReadConnection(one.id);
      if (!now || StandingOf(*now, key_holders) != one.standing) return false;
      const bool calls_in_vain = one.started > 0 && !CallsCount(one, key_holders != nullptr);
      return calls_in_vain || now->started == one.started;
    }
    for (const Connection& newer : OpenConnections(newest)) {
      newest = std::max(newest, newer.id);
      served.emplace(newer.peer.ip, newer.peer.port);
    }
    return !served.contains({one.peer.ip, one.peer.port});
  });
}

Room::Room(int port, bool tls, int max_descriptors, size_t max_handshakes,
           const KeyHolders* key_holders)
    : port_(port),
      tls_(tls),
      most_(max_descriptors),
      reserve_(std::min(kReserve, max_descriptors / 4)),
      max_handshakes_(max_handshakes),
      key_holders_(key_holders),
      settle_at_(max_handshakes + 1) {
  KeepSpares();
}

bool Room::IsKeptFor(int fd, const Address& peer) const {
  if (fd >= most_ - reserve_ / 4) return false;
  const std::vector<Address> peers = PeersAt(port_);
  const auto network = [](const Address& one) { return NetworkOf(one.ip); };
  return std::ranges::count(peers, network(peer), network) <= 1;
}

int Room::HandedOver(const Address& peer, Time now) {
  if (!tls_) return 0;  // gRPC counts it at once
  handshakes_.push_back({peer, now});
  if (handshakes_.size() < settle_at_) return 0;
  const std::vector<Connection> open = Open();
  Settle(open, now);
  const size_t part = max_handshakes_ / 4;
  int closed = 0;
  if (handshakes_.size() > max_handshakes_) {
    const size_t most = handshakes_.size() - (max_handshakes_ - part);
    closed = Close(TakeHandshakes(most), most, NewestOf(open));
  }
  // Settling takes long, so some more clients come first.
  settle_at_ = std::max(max_handshakes_ + 1, handshakes_.size() + part);
  return closed;
}

int Room::Make(Time now) {
  if (now < next_) return 0;
  std::vector<Connection> open = Open();
  const int64_t newest = NewestOf(open);
  Settle(open, now);
  const size_t most = std::max(kBatch, handshakes_.size() / 4);
  int closed = Close(TakeHandshakes(most), most, newest);
  // Where handshakes are few, others fill the descriptors.
  const size_t rest = kBatch - std::min(kBatch, static_cast<size_t>(closed));
  closed +=
      Close(IdlestConnections(std::move(open), absl::Now(), key_holders_ != nullptr), rest, newest);
  const Time end = std::chrono::steady_clock::now();
  next_ = end + (kShareOfTime - 1) * (end - now);
  return closed;
}

int Room::Close(const std::vector<Connection>& chosen, size_t most, int64_t newest) {
  if (chosen.empty() || most == 0) return 0;
  spares_ = {};
  const int closed = CloseStillIdle(chosen, most, newest, key_holders_);
  KeepSpares();
  return closed;
}

void Room::KeepSpares() {
  for (Descriptor& spare : spares_) spare = Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

std::vector<Connection> Room::Open() const {
  std::vector<Connection> open = OpenConnectionsAt(port_);
  for (Connection& one : open) one.standing = StandingOf(one, key_holders_);
  return open;
}

void Room::Settle(const std::vector<Connection>& open, Time now) {
  if (handshakes_.empty()) return;
  spares_ = {};
  std::set<std::pair<std::string, int>> under_way;
  for (const Address& peer : PeersAt(port_)) under_way.emplace(peer.ip, peer.port);
  KeepSpares();
  for (const Connection& one : open) under_way.erase({one.peer.ip, one.peer.port});
  std::erase_if(handshakes_, [&](const Handshake& handshake) {
    return now - handshake.since > kHandshake ||
           !under_way.contains({handshake.peer.ip, handshake.peer.port});
  });
}

std::vector<Connection> Room::TakeHandshakes(size_t most) {
  const size_t count = std::min(handshakes_.size(), most);
  std::vector<Connection> oldest;
  for (size_t i = 0; i < count; ++i) {
    oldest.push_back({.peer = std::move(handshakes_.front().peer), .local_port = port_});
    handshakes_.pop_front();
  }
  return oldest;
}

}  // namespace tvq
