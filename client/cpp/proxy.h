// Not part of the interface: the HTTP proxy that calls go through.
#ifndef TVQ_CLIENT_CPP_PROXY_H_
#define TVQ_CLIENT_CPP_PROXY_H_

#include <string>
#include <string_view>

namespace tvq::client {

// A sentence that begins with a blank and names the variable, if an address that a call went to is
// the proxy's; else "".
std::string OfProxy(std::string_view address);

// One for a server of this address that is silent, if calls to it may go through a proxy.
std::string ThroughProxy(std::string_view address);

}  // namespace tvq::client

#endif  // TVQ_CLIENT_CPP_PROXY_H_
