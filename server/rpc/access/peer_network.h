// Where a call comes from.
#ifndef TVQ_SERVER_RPC_ACCESS_PEER_NETWORK_H_
#define TVQ_SERVER_RPC_ACCESS_PEER_NETWORK_H_

#include <string>
#include <string_view>

namespace tvq {

// Tells callers without keys apart by gRPC's name of a peer. Returns the peer's network (NetworkOf)
// or, if the peer has no IP address, its kind, such as "unix".
std::string NetworkOfPeer(std::string_view peer);

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_ACCESS_PEER_NETWORK_H_
