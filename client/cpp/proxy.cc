#include "client/cpp/proxy.h"

#include <cstddef>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "base/host_port.h"

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

struct Proxy {
  const char* variable;  // that names it; null without one
  std::string_view url;
};

Proxy FindProxy() {
  for (const char* variable : kProxyVariables) {
    const char* const value = std::getenv(variable);
    if (value != nullptr && *value != '\0') return {variable, value};
  }
  return {};
}

constexpr char kPastIt[] = "; calls go past it to servers that no_proxy names.";

}  // namespace

std::string OfProxy(std::string_view address) {
  const Proxy proxy = FindProxy();
  // Its name may have been looked up.
  if (proxy.variable == nullptr || PortOf(HostPortOf(proxy.url)) != PortOf(address)) return "";
  return absl::StrCat(" It is the proxy of ", proxy.variable, kPastIt);
}

std::string ThroughProxy(std::string_view address) {
  const Proxy proxy = FindProxy();
  if (proxy.variable == nullptr || IsLoopback(address)) return "";
  return absl::StrCat(" It may be the proxy of ", proxy.variable, " that is silent", kPastIt);
}

}  // namespace tvq::client
