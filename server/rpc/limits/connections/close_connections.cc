#include "server/rpc/limits/connections/close_connections.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/strings/numbers.h"

namespace tvq {
namespace {

// A descriptor of our own of what `fd` is: `fd` may be closed, and its number be used again, at any
// time.
class Duplicate {
 public:
  explicit Duplicate(int fd) : fd_(fcntl(fd, F_DUPFD_CLOEXEC, 0)) {}
  ~Duplicate() {
    if (fd_ >= 0) close(fd_);
  }
  Duplicate(const Duplicate&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

using NameOf = int (*)(int, sockaddr*, socklen_t*);  // getpeername or getsockname

// As gRPC has it: IPv4 as 4 bytes also where it comes through a socket of IPv6.
std::optional<Address> AddressOf(int fd, NameOf name_of) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  if (name_of(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return std::nullopt;
  const auto address = [](const void* ip, size_t bytes, in_port_t port) {
    return Address{std::string(static_cast<const char*>(ip), bytes), ntohs(port)};
  };
  if (storage.ss_family == AF_INET) {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(storage);
    return address(&ipv4.sin_addr, sizeof(ipv4.sin_addr), ipv4.sin_port);
  }
  if (storage.ss_family != AF_INET6) return std::nullopt;
  const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(storage);
  constexpr size_t kPrefix = sizeof(in6_addr) - sizeof(in_addr);
  if (IN6_IS_ADDR_V4MAPPED(&ipv6.sin6_addr)) {
    return address(ipv6.sin6_addr.s6_addr + kPrefix, sizeof(in_addr), ipv6.sin6_port);
  }
  return address(&ipv6.sin6_addr, sizeof(ipv6.sin6_addr), ipv6.sin6_port);
}

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
  const auto peer = AddressOf(fd, getpeername);
  const auto local = AddressOf(fd, getsockname);
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
    if (!AddressOf(number, getpeername)) continue;  // most are no sockets that are connected
    const Duplicate fd(number);
    if (fd.get() < 0 || !IsOneOf(fd.get(), connections)) continue;
    End(fd.get());
    ++found;
  }
  return found;
}

}  // namespace tvq
