#ifndef TVQ_SERVER_RPC_LIMITS_CONNECTIONS_CLOSE_CONNECTIONS_H_
#define TVQ_SERVER_RPC_LIMITS_CONNECTIONS_CLOSE_CONNECTIONS_H_

#include <cstddef>
#include <functional>
#include <vector>

#include "server/rpc/limits/connections/connection.h"

namespace tvq {

// Ends these connections of this process, which gRPC then finds closed by their clients: what has
// come and was not read yet is dropped. Returns how many were ended.
int CloseConnections(const std::vector<Connection>& connections);

// The same of the first, at most `most`, of which `may` says so right before.
int CloseConnections(const std::vector<Connection>& connections, size_t most,
                     const std::function<bool(const Connection&)>& may);

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LIMITS_CONNECTIONS_CLOSE_CONNECTIONS_H_
