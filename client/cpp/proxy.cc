#include "client/cpp/proxy.h"

#include <cstddef>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace tvq::client {
namespace {

// In the order in which gRPC looks for them.
constexpr const char* kProxyVariables[] = {"grpc_proxy", "https_proxy", "http_proxy"};

// ":3128"; gRPC's own where there is none.
std::string_view PortOf(std::string_view address) {
  const size_t colon = address.rfind(':');
  return colon == address.npos || address.find(']', colon) != address.npos ? ":443"
                                                                           : address.substr(colon);
}

// HOST:PORT of http://USER:PASSWORD@HOST:PORT/.
std::string_view HostPortOf(std::string_view url) {
  if (const size_t scheme = url.find("://"); scheme != url.npos) url.remove_prefix(scheme + 3);
  url = url.substr(0, url.find('/'));
  if (const size_t user = url.rfind('@'); user != url.npos) url.remove_prefix(user + 1);
  return url;
}

}  // namespace

std::string OfProxy(std::string_view address) {
  for (const char* variable : kProxyVariables) {
    const char* const value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    // Its name may have been looked up.
    if (PortOf(HostPortOf(value)) != PortOf(address)) return "";
    return absl::StrCat(" It is the proxy of ", variable,
                        "; calls go past it to servers that no_proxy names.");
  }
  return "";
}

}  // namespace tvq::client
