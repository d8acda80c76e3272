// What gRPC counts of its server's calls and connections, read from channelz: C functions of
// grpc.h that answer JSON (grpc/proposal A14).
#ifndef TVQ_SERVER_RPC_LIMITS_CONNECTIONS_CHANNELZ_H_
#define TVQ_SERVER_RPC_LIMITS_CONNECTIONS_CHANNELZ_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "server/rpc/limits/connections/connection.h"

namespace tvq {

// Calls that came in, also those to methods that there are not, to all of the process's servers.
// Some 20 us.
int64_t CallsStarted();

// The connections with ids above `after`, of all servers of the process. `bytes`, `unread`, `ended`
// and `standing` are not filled in, for gRPC does not count them. Some 20 us each.
std::vector<Connection> OpenConnections(int64_t after = 0);

// All that came to this port.
std::vector<Connection> OpenConnectionsAt(int port);

// What is counted of it by now; nothing if it has gone. Some 20 us.
std::optional<Connection> ReadConnection(int64_t id);

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LIMITS_CONNECTIONS_CHANNELZ_H_
