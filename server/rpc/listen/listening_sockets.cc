#include "server/rpc/listen/listening_sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/host_port.h"
#include "base/ipv6.h"
#include "server/rpc/limits/connections/socket_address.h"

namespace tvq {
namespace {

constexpr int kBacklog = 4096;
// A port that is free at one address may be another program's at the next.
constexpr int kFreePortTries = 20;

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::Status CannotListen(const std::string& host, int port, const std::string& why) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", HostPort(host, port), ": ", why));
}

std::string Why(int error) {
  if (error == EADDRINUSE) return "the port is in use";
  if (error == EADDRNOTAVAIL) return "the host is no address of this machine";
  if (error == EAFNOSUPPORT) return kNoIpv6;
  return std::generic_category().message(error);
}

bool IsNotHere(int error) { return error == EADDRNOTAVAIL || error == EAFNOSUPPORT; }

// 0, or what errno says. `both`: an address of IPv6 takes IPv4's clients too.
int Listen(const addrinfo& at, int port, bool both, Descriptor* out) {
  Descriptor fd(socket(at.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!fd.ok()) return errno;
  const int yes = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_storage address{};
  std::copy_n(reinterpret_cast<const char*>(at.ai_addr), at.ai_addrlen,
              reinterpret_cast<char*>(&address));
  if (at.ai_family == AF_INET6) {
    const int only = both ? 0 : 1;
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = htons(static_cast<in_port_t>(port));
  } else {
    reinterpret_cast<sockaddr_in&>(address).sin_port = htons(static_cast<in_port_t>(port));
  }
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), at.ai_addrlen) != 0) return errno;
  if (listen(fd.get(), kBacklog) != 0) return errno;
  *out = std::move(fd);
  return 0;
}

absl::StatusOr<Addresses> Resolve(const std::string& host, int port) {
  const addrinfo hints{.ai_flags = AI_PASSIVE, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  const std::string name = bracketed ? host.substr(1, host.size() - 2) : host;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(name.c_str(), nullptr, &hints, &found); error != 0) {
    return CannotListen(host, port, absl::StrCat("the host is unknown: ", gai_strerror(error)));
  }
  return Addresses(found, freeaddrinfo);
}

// `taken`: a port that was free at another address is not at this one.
absl::StatusOr<ListeningSockets> Try(const std::string& host, int port, const addrinfo* addresses,
                                     bool both, bool* taken) {
  *taken = false;
  ListeningSockets listening{.port = port};
  int last = 0;
  for (const addrinfo* at = addresses; at != nullptr; at = at->ai_next) {
    Descriptor fd;
    last = Listen(*at, listening.port, both, &fd);
    if (last == 0) {
      listening.port = LocalOf(fd.get())->port;
      listening.sockets.push_back(std::move(fd));
    } else if (!IsNotHere(last)) {
      *taken = port == 0 && last == EADDRINUSE && !listening.sockets.empty();
      return CannotListen(host, port, Why(last));
    }
  }
  if (listening.sockets.empty()) return CannotListen(host, port, Why(last));
  return listening;
}

}  // namespace

absl::StatusOr<ListeningSockets> ListenOn(const std::string& host, int port) {
  bool taken = false;
  if (host == "0.0.0.0" || host == "::") {
    const auto all = Resolve("::", port);
    if (all.ok()) {
      auto listening = Try(host, port, all->get(), /*both=*/true, &taken);
      // Otherwise 0.0.0.0 itself is tried, as where the system has no IPv6.
      if (listening.ok() || host == "::") return listening;
    }
  }
  const auto addresses = Resolve(host, port);
  if (!addresses.ok()) return addresses.status();
  auto listening = Try(host, port, addresses->get(), /*both=*/false, &taken);
  for (int i = 1; taken && i < kFreePortTries; ++i) {
    listening = Try(host, port, addresses->get(), /*both=*/false, &taken);
  }
  return listening;
}

}  // namespace tvq
