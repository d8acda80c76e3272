#ifndef TVQ_SERVER_RPC_LIMITS_CONNECTIONS_CLOSE_CONNECTIONS_H_
#define TVQ_SERVER_RPC_LIMITS_CONNECTIONS_CLOSE_CONNECTIONS_H_

#include <vector>

#include "server/rpc/limits/connections/connection.h"

namespace tvq {

// Ends these connections of this process, which gRPC then finds closed by their clients: what has
// come and was not read yet is dropped. Returns how many were found.
int CloseConnections(const std::vector<Connection>& connections);

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LIMITS_CONNECTIONS_CLOSE_CONNECTIONS_H_
