#include "server/rpc/limits/connections/process_sockets.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>
#include <tuple>

#include "absl/strings/numbers.h"
#include "server/rpc/limits/connections/socket_address.h"

namespace tvq {
namespace {

int64_t BytesReceived(int fd) {
  tcp_info info{};
  socklen_t length = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return 0;
  return static_cast<int64_t>(info.tcpi_bytes_received);
}

int64_t BytesUnread(int fd) {
  int bytes = 0;
  return ioctl(fd, FIONREAD, &bytes) == 0 ? bytes : 0;
}

}  // namespace

bool ForEachConnected(
    const std::function<void(int fd, const Address& peer, const Address& local)>& see) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    int fd = -1;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &fd)) continue;
    const auto peer = PeerOf(fd);
    if (!peer) continue;  // most are no sockets that are connected
    const auto local = LocalOf(fd);
    if (local) see(fd, *peer, *local);
  }
  return !error;
}

std::vector<Address> PeersAt(int port) {
  std::vector<Address> peers;
  ForEachConnected([&](int, const Address& peer, const Address& local) {
    if (local.port == port) peers.push_back(peer);
  });
  return peers;
}

SocketBytes::SocketBytes() {
  all_ = ForEachConnected([&](int fd, const Address& peer, const Address& local) {
    by_ends_[{peer.ip, peer.port, local.ip, local.port}] = {BytesReceived(fd), BytesUnread(fd)};
  });
}

void SocketBytes::CountFor(std::vector<Connection>* connections) const {
  const auto find = [](const SocketBytes& bytes, const Connection& one) {
    return bytes.by_ends_.find({one.peer.ip, one.peer.port, one.local_ip, one.local_port});
  };
  std::vector<Connection*> missing;
  for (Connection& one : *connections) {
    const auto found = find(*this, one);
    if (found == by_ends_.end()) {
      missing.push_back(&one);
      continue;
    }
    one.bytes = found->second.received;
    one.unread = found->second.unread;
  }
  if (missing.empty()) return;
  const SocketBytes later;  // some may have come since
  for (Connection* const one : missing) {
    one->ended = later.all_ && find(later, *one) == later.by_ends_.end();
  }
}

}  // namespace tvq
