#include "server/rpc/listen/room.h"

#include <fcntl.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/time/clock.h"
#include "server/rpc/limits/connections/channelz.h"
#include "server/rpc/limits/connections/close_connections.h"

namespace tvq {
namespace {

// Closed at once: looking for them takes as long for one as for many.
constexpr size_t kBatch = 64;

int64_t NewestOf(const std::vector<Connection>& open) {
  int64_t newest = 0;
  for (const Connection& one : open) newest = std::max(newest, one.id);
  return newest;
}

}  // namespace

std::vector<Connection> IdlestConnections(std::vector<Connection> open, absl::Time now,
                                          size_t most) {
  std::erase_if(open, [now](const Connection& connection) {
    return connection.live() > 0 || (connection.started > 0 && now - connection.last_used < kIdle);
  });
  std::ranges::sort(open, {}, [](const Connection& connection) {
    const bool used = connection.started > 0;
    return std::tuple(used, used ? connection.last_used : absl::InfinitePast(), connection.id);
  });
  if (open.size() > most) open.resize(most);
  return open;
}

int CloseStillIdle(const std::vector<Connection>& chosen, int64_t newest) {
  std::set<std::pair<std::string, int>> served;  // whose handshakes have ended since
  return CloseConnections(chosen, [&](const Connection& one) {
    if (one.id != 0) {
      const auto now = ReadConnection(one.id);
      return now && now->started == one.started;
    }
    for (const Connection& newer : OpenConnections(newest)) {
      newest = std::max(newest, newer.id);
      served.emplace(newer.peer.ip, newer.peer.port);
    }
    return !served.contains({one.peer.ip, one.peer.port});
  });
}

Room::Room(int port, bool tls, int max_descriptors)
    : port_(port),
      tls_(tls),
      most_(max_descriptors),
      reserve_(std::min(kReserve, max_descriptors / 4)) {
  KeepSpares();
}

void Room::HandedOver(const Address& peer, Time now) {
  if (!tls_) return;  // gRPC counts it at once
  if (handshakes_.size() >= kMaxHandshakes) {
    const std::vector<Connection> open = Open();
    Settle(open, now);
    if (handshakes_.size() >= kMaxHandshakes) Close(OldestHandshakes(), NewestOf(open));
  }
  handshakes_.push_back({peer, now});
}

int Room::Make(Time now) {
  if (now < next_) return 0;
  std::vector<Connection> open = Open();
  const int64_t newest = NewestOf(open);
  Settle(open, now);
  int closed = Close(OldestHandshakes(), newest);
  if (closed == 0) closed = Close(IdlestConnections(std::move(open), absl::Now(), kBatch), newest);
  const Time end = std::chrono::steady_clock::now();
  next_ = end + (kShareOfTime - 1) * (end - now);
  return closed;
}

int Room::Close(const std::vector<Connection>& chosen, int64_t newest) {
  if (chosen.empty()) return 0;
  spares_ = {};
  const int closed = CloseStillIdle(chosen, newest);
  KeepSpares();
  return closed;
}

void Room::KeepSpares() {
  for (Descriptor& spare : spares_) spare = Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

std::vector<Connection> Room::Open() const {
  std::vector<Connection> open = OpenConnections();
  std::erase_if(open, [this](const Connection& one) { return one.local_port != port_; });
  return open;
}

void Room::Settle(const std::vector<Connection>& open, Time now) {
  std::set<std::pair<std::string, int>> served;
  for (const Connection& one : open) served.emplace(one.peer.ip, one.peer.port);
  std::erase_if(handshakes_, [&](const Handshake& handshake) {
    return now - handshake.since > kHandshake ||
           served.contains({handshake.peer.ip, handshake.peer.port});
  });
}

std::vector<Connection> Room::OldestHandshakes() {
  const size_t count = std::min(handshakes_.size(), std::max(kBatch, handshakes_.size() / 4));
  std::vector<Connection> oldest;
  for (size_t i = 0; i < count; ++i) {
    oldest.push_back({.peer = std::move(handshakes_.front().peer), .local_port = port_});
    handshakes_.pop_front();
  }
  return oldest;
}

}  // namespace tvq
