// Where clients connect.
#ifndef TVQ_SERVER_RPC_LISTEN_LISTENING_SOCKETS_H_
#define TVQ_SERVER_RPC_LISTEN_LISTENING_SOCKETS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/descriptors.h"

namespace tvq {

struct ListeningSockets {
  std::vector<Descriptor> sockets;  // of TCP, non-blocking; at least one
  int port = 0;                     // of all
};

// Listens at every address of `host` that this machine has. 0.0.0.0 and :: stand for all addresses
// of IPv4 and IPv6; an IPv6 address may stand in brackets. `port` 0 is a free one. UNAVAILABLE
// names the address and what is wrong with it: the port is in use, the host has no address or none
// of this machine, or it is an address of IPv6 and the system has no IPv6.
absl::StatusOr<ListeningSockets> ListenOn(const std::string& host, int port);

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LISTEN_LISTENING_SOCKETS_H_
