#include "client/cpp/unreachable.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace tvq::client {
namespace {

// In the order in which gRPC looks for them.
constexpr const char* kProxyVariables[] = {"grpc_proxy", "https_proxy", "http_proxy"};

// " ..." if this address is the proxy's.
std::string OfProxy(absl::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos) return "";
  const absl::string_view port = address.substr(colon);
  for (const char* variable : kProxyVariables) {
    const char* const value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    if (!absl::EndsWith(absl::StripSuffix(value, "/"), port)) return "";
    return absl::StrCat(" It is the proxy of ", variable,
                        "; calls go past it to servers that no_proxy names.");
  }
  return "";
}

// "ipv4:127.0.0.1:1", "ipv6:%5B::1%5D:1", "unix:/tmp/socket".
std::string AddressOf(absl::string_view target) {
  if (!absl::ConsumePrefix(&target, "ipv4:")) absl::ConsumePrefix(&target, "ipv6:");
  return absl::StrReplaceAll(target, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
}

}  // namespace

std::string Unreachable(std::string_view message) {
  absl::string_view rest(message.data(), message.size());
  if (absl::ConsumePrefix(&rest, "DNS resolution failed for ")) {
    const absl::string_view name = rest.substr(0, rest.find(": "));
    return absl::StrCat("No server at ", name, ": there is no such name. ", kIsItRunning);
  }
  if (!absl::ConsumePrefix(&rest, "failed to connect to all addresses; last error: ")) return "";
  // CODE: TARGET: REASON
  rest.remove_prefix(std::min(rest.size(), rest.find(": ") + 2));
  const size_t end = std::min(rest.size(), rest.find(": "));
  const std::string address = AddressOf(rest.substr(0, end));
  absl::string_view reason = rest.substr(std::min(rest.size(), end + 2));
  absl::ConsumePrefix(&reason, "Failed to connect to remote host: ");
  const bool is_http =
      absl::StrContains(reason, "Failed parsing HTTP/2") || absl::StrContains(reason, "http1");
  if (is_http) {
    return absl::StrCat(address,
                        " speaks HTTP, as tvq-gateway does. Give the address of tvq-server "
                        "itself, of which the port is 50051 by default.");
  }
  const bool is_nobody = reason == "Connection refused" || reason == "No such file or directory";
  return absl::StrCat("No server at ", address, is_nobody ? "" : absl::StrCat(" (", reason, ")"),
                      ".", OfProxy(address), " ", kIsItRunning);
}

}  // namespace tvq::client
