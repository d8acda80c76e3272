#include "server/rpc/limits/connections/process_sockets.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/numbers.h"
#include "server/rpc/limits/connections/socket_address.h"

namespace tvq {

void ForEachConnected(const std::function<void(int fd)>& see) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    int fd = -1;
    if (absl::SimpleAtoi(entry.path().filename().string(), &fd) && PeerOf(fd)) see(fd);
  }
}

std::vector<Address> PeersAt(int port) {
  std::vector<Address> peers;
  ForEachConnected([&](int fd) {
    const auto peer = PeerOf(fd);
    const auto local = LocalOf(fd);
    if (peer && local && local->port == port) peers.push_back(*peer);
  });
  return peers;
}

}  // namespace tvq
