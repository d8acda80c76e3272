// The connections of this process, whoever opened them.
#ifndef TVQ_SERVER_RPC_LIMITS_CONNECTIONS_PROCESS_SOCKETS_H_
#define TVQ_SERVER_RPC_LIMITS_CONNECTIONS_PROCESS_SOCKETS_H_

#include <functional>
#include <vector>

#include "server/rpc/limits/connections/connection.h"

namespace tvq {

// Calls `see` with each socket that is connected. It may be closed, and its number be used again,
// at any time. Takes one descriptor; false if there is none. Some 2 us each.
bool ForEachConnected(
    const std::function<void(int fd, const Address& peer, const Address& local)>& see);

// Who is connected to one of its ports.
std::vector<Address> PeersAt(int port);

// Fills in the bytes that have come over each, and whether it has ended.
void CountBytes(std::vector<Connection>* connections);

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LIMITS_CONNECTIONS_PROCESS_SOCKETS_H_
