// Systems without IPv6.
#ifndef TVQ_BASE_IPV6_H_
#define TVQ_BASE_IPV6_H_

namespace tvq {

// Whether the system has sockets of IPv6.
bool HasIpv6();

// Why one cannot listen on an address of IPv6 where there are none.
constexpr char kNoIpv6[] =
    "this system has no IPv6; 0.0.0.0 stands for all addresses of IPv4, 127.0.0.1 for this machine "
    "alone";

}  // namespace tvq

#endif  // TVQ_BASE_IPV6_H_
