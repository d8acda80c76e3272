#include "server/rpc/limits/connections/close_connections.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/strings/numbers.h"
#include "base/descriptors.h"
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

bool IsOneOf(int fd, const std::vector<Connection>& connections) {
  const auto peer = PeerOf(fd);
  const auto local = LocalOf(fd);
  return peer && local && std::ranges::any_of(connections, [&](const Connection& connection) {
           return connection.peer == *peer && connection.local_port == local->port;
         });
}

}  // namespace

int CloseConnections(const std::vector<Connection>& connections) {
  int found = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    int number = -1;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &number)) continue;
    if (!PeerOf(number)) continue;  // most are no sockets that are connected
    const Descriptor fd = Duplicate(number);
    if (!fd.ok() || !IsOneOf(fd.get(), connections)) continue;
    End(fd.get());
    ++found;
  }
  return found;
}

}  // namespace tvq
