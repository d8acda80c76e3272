// Where a call comes from.
#ifndef TVQ_SERVER_RPC_ACCESS_NETWORK_H_
#define TVQ_SERVER_RPC_ACCESS_NETWORK_H_

#include <string>
#include <string_view>

namespace tvq {

// What tells callers without keys apart, from gRPC's name of a peer: an address of IPv4,
// "192.0.2.1", or a network of 56 bits of IPv6, "2001:db8:0:1200::/56". Providers give a customer
// at least so much (RIPE-690), of which he may use any address; by a longer prefix he would be 256
// callers or more. Of a peer without such an address its kind: "unix".
std::string NetworkOf(std::string_view peer);

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_ACCESS_NETWORK_H_
