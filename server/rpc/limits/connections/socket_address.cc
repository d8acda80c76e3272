#include "server/rpc/limits/connections/socket_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

using NameOf = int (*)(int, sockaddr*, socklen_t*);  // getpeername or getsockname

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

}  // namespace

std::optional<Address> PeerOf(int fd) { return AddressOf(fd, getpeername); }

std::optional<Address> LocalOf(int fd) { return AddressOf(fd, getsockname); }

std::string ToString(const Address& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int family = address.ip.size() == sizeof(in_addr) ? AF_INET : AF_INET6;
  inet_ntop(family, address.ip.data(), text.data(), text.size());
  return absl::StrCat(text.data(), " port ", address.port);
}

}  // namespace tvq
