#include "base/ipv6.h"

#include <sys/socket.h>

#include <cerrno>

#include "base/descriptors.h"

namespace tvq {

bool HasIpv6() {
  const Descriptor fd(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return fd.ok() || errno != EAFNOSUPPORT;
}

}  // namespace tvq
