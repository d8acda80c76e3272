// Where a call comes from.
#ifndef TVQ_SERVER_RPC_ACCESS_PEER_NETWORK_H_
#define TVQ_SERVER_RPC_ACCESS_PEER_NETWORK_H_

#include <string>
#include <string_view>

namespace tvq {

// What tells callers without keys apart, from gRPC's name of a peer: its network (NetworkOf). Of a
// peer without an address of IP its kind: "unix".
std::string NetworkOfPeer(std::string_view peer);

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_ACCESS_PEER_NETWORK_H_
