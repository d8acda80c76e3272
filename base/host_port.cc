#include "base/host_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/quoted.h"

namespace tvq {
namespace {

// An IPv6 address without brackets has colons, but no port.
bool IsBareIpv6(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

std::string HostOf(std::string_view address) {
  std::string host(address);
  if (IsBareIpv6(host)) return host;
  const size_t colon = host.rfind(':');
  if (colon != std::string::npos && host.find(']', colon) == std::string::npos) host.resize(colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return host;
}

}  // namespace

std::string HostPort(const std::string& host, int port) {
  const bool bare = host.find(':') != std::string::npos && host.front() != '[';
  return bare ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

bool IsLoopback(std::string_view address) {
  if (address.starts_with("unix:")) return true;
  const std::string host = HostOf(address);
  in_addr v4;
  in6_addr v6;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return host == "localhost";
}

absl::StatusOr<ServerAddress> ParseServerAddress(std::string_view text, int default_port) {
  const auto wrong = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(text), " is no address of a server, must be HOST:PORT"));
  };
  ServerAddress server;
  absl::string_view rest(text.data(), text.size());
  server.tls = absl::ConsumePrefix(&rest, "https://");
  if (server.tls || absl::ConsumePrefix(&rest, "http://")) absl::ConsumeSuffix(&rest, "/");
  server.address = std::string(rest);
  if (absl::StartsWith(rest, "unix:") || absl::StrContains(rest, ":///")) return server;
  if (rest.empty() || absl::StrContains(rest, "/") || absl::StrContains(rest, " ")) return wrong();
  const size_t colon = rest.rfind(':');
  const bool has_port = colon != absl::string_view::npos && !IsBareIpv6(server.address) &&
                        rest.find(']', colon) == absl::string_view::npos;
  if (!has_port) {
    server.address = HostPort(server.address, default_port);
    return server;
  }
  int port = 0;
  if (colon == 0 || !absl::SimpleAtoi(rest.substr(colon + 1), &port) || port < 1 || port > 65535) {
    return wrong();
  }
  return server;
}

}  // namespace tvq
