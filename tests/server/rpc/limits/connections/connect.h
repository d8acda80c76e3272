#ifndef TVQ_TESTS_SERVER_RPC_LIMITS_CONNECTIONS_CONNECT_H_
#define TVQ_TESTS_SERVER_RPC_LIMITS_CONNECTIONS_CONNECT_H_

#include <arpa/inet.h>
#include <sys/socket.h>

#include "base/descriptors.h"

namespace tvq {

// A client that says nothing, at a port of 127.0.0.1 or another address, from whichever or a given
// address and port of its own; none if it cannot connect.
inline Descriptor ConnectTo(int port, in_addr_t ip = INADDR_LOOPBACK, in_addr_t from = INADDR_ANY,
                            int from_port = 0) {
  Descriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;  // another connection may have `from_port`, too
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(static_cast<uint16_t>(from_port))};
  address.sin_addr.s_addr = htonl(from);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return {};
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(ip);
  const bool connected =
      connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  return connected ? std::move(fd) : Descriptor();
}

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_RPC_LIMITS_CONNECTIONS_CONNECT_H_
