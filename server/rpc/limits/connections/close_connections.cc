#include "server/rpc/limits/connections/close_connections.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cstddef>
#include <map>
#include <string>
#include <tuple>

#include "base/descriptors.h"
#include "server/rpc/limits/connections/process_sockets.h"
#include "server/rpc/limits/connections/socket_address.h"

namespace tvq {
namespace {

// A descriptor of our own of what `fd` is: `fd` may be closed, and its number be used again, at any
// time.
Descriptor Duplicate(int fd) { return Descriptor(fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

// Shutting down alone would leave gRPC what lies in the socket's buffer, perhaps megabytes, and the
// client waiting for room in it: without lingering, it is told when gRPC closes.
void End(int fd) {
  const linger none{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
  shutdown(fd, SHUT_RDWR);
  while (recv(fd, nullptr, size_t{1} << 30, MSG_TRUNC | MSG_DONTWAIT) > 0) {
  }
}

// The two ends of a connection.
using Ends = std::tuple<std::string, int, int>;

}  // namespace

int CloseConnections(const std::vector<Connection>& connections) {
  return CloseConnections(connections, [](const Connection&) { return true; });
}

int CloseConnections(const std::vector<Connection>& connections,
                     const std::function<bool(const Connection&)>& may) {
  std::map<Ends, const Connection*> wanted;
  for (const Connection& one : connections) {
    wanted.emplace(Ends(one.peer.ip, one.peer.port, one.local_port), &one);
  }
  int ended = 0;
  ForEachConnected([&](int number, const Address&, const Address&) {
    const Descriptor fd = Duplicate(number);
    const auto peer = PeerOf(fd.get());
    const auto local = LocalOf(fd.get());
    if (!peer || !local) return;
    const auto found = wanted.find(Ends(peer->ip, peer->port, local->port));
    if (found == wanted.end() || !may(*found->second)) return;
    End(fd.get());
    ++ended;
  });
  return ended;
}

}  // namespace tvq
