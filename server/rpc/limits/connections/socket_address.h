// The addresses of both ends of a TCP connection.
#ifndef TVQ_SERVER_RPC_LIMITS_CONNECTIONS_SOCKET_ADDRESS_H_
#define TVQ_SERVER_RPC_LIMITS_CONNECTIONS_SOCKET_ADDRESS_H_

#include <optional>
#include <string>

#include "server/rpc/limits/connections/connection.h"

namespace tvq {

// As gRPC has them: IPv4 as 4 bytes also where it comes through a socket of IPv6. Nothing for what
// is no connection of TCP.
std::optional<Address> PeerOf(int fd);
std::optional<Address> LocalOf(int fd);

// "192.0.2.1 port 4711"
std::string ToString(const Address& address);

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LIMITS_CONNECTIONS_SOCKET_ADDRESS_H_
