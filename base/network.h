// Which addresses are one client's.
#ifndef TVQ_BASE_NETWORK_H_
#define TVQ_BASE_NETWORK_H_

#include <string>
#include <string_view>

namespace tvq {

// The network that an address belongs to, as text: of IPv4 the address itself, "192.0.2.1", also
// where it comes through a socket of IPv6; of IPv6 its first 56 bits, "2001:db8:0:1200::/56".
// Providers give a customer at least so much (RIPE-690), of which he may use any address: by a
// longer prefix he would be 256 clients or more. `ip`: 4 or 16 bytes in network order;
// of others nothing.
std::string NetworkOf(std::string_view ip);

}  // namespace tvq

#endif  // TVQ_BASE_NETWORK_H_
