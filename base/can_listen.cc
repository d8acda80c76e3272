#include "base/can_listen.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/host_port.h"

namespace tvq {
namespace {

// Of a system call that failed; 0: it may be listened on.
int Bind(const addrinfo& at) {
  const int descriptor = socket(at.ai_family, at.ai_socktype | SOCK_CLOEXEC, at.ai_protocol);
  if (descriptor < 0) return errno;
  const int on = 1;
  // A port that a program had until just now is free.
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const int reason = bind(descriptor, at.ai_addr, at.ai_addrlen) == 0 ? 0 : errno;
  close(descriptor);
  return reason;
}

bool IsNotHere(int reason) { return reason == EADDRNOTAVAIL || reason == EAFNOSUPPORT; }

std::string Text(int reason) {
  if (IsNotHere(reason)) return "the host is no address of this machine";
  return reason == EADDRINUSE ? "the port is in use" : std::strerror(reason);
}

}  // namespace

absl::Status CanListen(const std::string& host, int port) {
  const auto cannot = [&](const std::string& why) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", HostPort(host, port), ": ", why));
  };
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string name = bracketed ? host.substr(1, host.size() - 2) : host;
  addrinfo hints = {};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(name.c_str(), absl::StrCat(port).c_str(), &hints, &found);
  if (failed != 0)
    return cannot(absl::StrCat("the host cannot be looked up, ", gai_strerror(failed)));
  const absl::Cleanup free = [found] { freeaddrinfo(found); };
  int not_here = 0;
  bool is_here = false;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const int reason = Bind(*at);
    if (reason != 0 && !IsNotHere(reason)) return cannot(Text(reason));
    is_here = is_here || reason == 0;
    if (reason != 0) not_here = reason;
  }
  return is_here ? absl::OkStatus() : cannot(Text(not_here));
}

}  // namespace tvq
