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

// A shutdown alone would leave gRPC perhaps megabytes to read, and the client waiting for room in
// the socket's buffer. Without lingering, the client is told when gRPC closes.
void End(int fd) {
  const linger none{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
  shutdown(fd, SHUT_RDWR);
  while (recv(fd, nullptr, size_t{1} << 30, MSG_TRUNC | MSG_DONTWAIT) > 0) {
  }
}

// The two ends of a connection.
using Ends = std::tuple<std::string, int, int>;

Ends EndsOf(const Connection& one) { return {one.peer.ip, one.peer.port, one.local_port}; }

Ends EndsOf(const Address& peer, const Address& local) { return {peer.ip, peer.port, local.port}; }

bool IsOf(int fd, const Connection& one) {
  const auto peer = PeerOf(fd);
  const auto local = LocalOf(fd);
  return peer && local && EndsOf(*peer, *local) == EndsOf(one);
}

}  // namespace

int CloseConnections(const std::vector<Connection>& connections) {
  return CloseConnections(connections, connections.size(), [](const Connection&) { return true; });
}

int CloseConnections(const std::vector<Connection>& connections, size_t most,
                     const std::function<bool(const Connection&)>& may) {
  std::map<Ends, int> descriptors;
  for (const Connection& one : connections) descriptors.emplace(EndsOf(one), -1);
  ForEachConnected([&](int fd, const Address& peer, const Address& local) {
    const auto found = descriptors.find(EndsOf(peer, local));
    if (found != descriptors.end()) found->second = fd;
  });
  size_t ended = 0;
  for (const Connection& one : connections) {
    if (ended == most) break;
    const Descriptor fd = Duplicate(descriptors.at(EndsOf(one)));
    if (!IsOf(fd.get(), one) || !may(one)) continue;
    End(fd.get());
    ++ended;
  }
  return static_cast<int>(ended);
}

}  // namespace tvq
