#include "client/cpp/unreachable.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
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
    const bool is_unknown = absl::StrContains(rest, "Domain name not found") ||
                            absl::StrContains(rest, "Name or service not known");
    return absl::StrCat("No server at ", name, ": ",
                        is_unknown ? "there is no such name" : "the name cannot be looked up", ". ",
                        kIsItRunning);
  }
  // CODE: TARGET: REASON
  if (!absl::ConsumePrefix(&rest, "failed to connect to all addresses; last error: ")) return "";
  const std::pair<absl::string_view, absl::string_view> code =
      absl::StrSplit(rest, absl::MaxSplits(": ", 1));
  const std::pair<absl::string_view, absl::string_view> target =
      absl::StrSplit(code.second, absl::MaxSplits(": ", 1));
  if (target.second.empty()) return "";
  const std::string address = AddressOf(target.first);
  absl::string_view reason = target.second;
  absl::ConsumePrefix(&reason, "Failed to connect to remote host: ");
  absl::ConsumePrefix(&reason, "connect: ");      // of newer versions
  reason = reason.substr(0, reason.rfind(" ("));  // which add the number
  if (absl::StrContains(reason, "Failed parsing HTTP/2") || absl::StrContains(reason, "http1")) {
    return absl::StrCat(address,
                        " speaks HTTP, as tvq-gateway does. Give the address of tvq-server "
                        "itself, of which the port is 50051 by default.");
  }
  const bool is_nobody = reason == "Connection refused" || reason == "No such file or directory";
  if (is_nobody || absl::StrContains(reason, "route") || absl::StrContains(reason, "unreachable") ||
      absl::StrContains(reason, "timed out")) {
    return absl::StrCat("No server at ", address, is_nobody ? "" : absl::StrCat(" (", reason, ")"),
                        ".", OfProxy(address), " ", kIsItRunning);
  }
  return absl::StrCat("Cannot connect to ", address, ": ", reason,
                      ". Does the server speak TLS, or not, and who signed its certificate?");
}

}  // namespace tvq::client
