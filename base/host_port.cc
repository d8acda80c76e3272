#include "base/host_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/quoted.h"

namespace tvq {
namespace {

// An IPv6 address without brackets has colons, but no port. It may have a zone: fe80::1%eth0.
bool IsBareIpv6(const std::string& host) {
  const size_t percent = host.find('%');
  if (percent != std::string::npos) {
    const std::string zone = host.substr(percent + 1);
    if (zone.empty() || zone.find_first_of(":[]") != std::string::npos) return false;
  }
  in6_addr address;
  return inet_pton(AF_INET6, host.substr(0, percent).c_str(), &address) == 1;
}

constexpr size_t kMostPath = sizeof(sockaddr_un::sun_path) - 1;

// Of a name as gRPC knows them, which takes it as it is; "" if it has none.
absl::string_view SchemeOf(absl::string_view address) {
  for (const char* scheme : {"unix:", "unix-abstract:", "vsock:", "dns:", "ipv4:", "ipv6:"}) {
    if (absl::StartsWith(address, scheme)) return scheme;
  }
  return "";
}

bool ConsumePrefixIgnoringCase(absl::string_view* text, absl::string_view prefix) {
  if (!absl::StartsWithIgnoreCase(*text, prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

// NAME:PORT of dns:NAME:PORT, dns:///NAME:PORT and dns://SERVER/NAME:PORT; the addresses of
// ipv4:ADDRESS:PORT,ADDRESS:PORT; anything else as it is.
std::vector<std::string> WithoutScheme(absl::string_view address) {
  if (absl::ConsumePrefix(&address, "dns:")) {
    if (absl::ConsumePrefix(&address, "//")) {
      address.remove_prefix(std::min(address.find('/'), address.size()));
      absl::ConsumePrefix(&address, "/");
    }
    return {std::string(address)};
  }
  const bool are_numbers =
      absl::ConsumePrefix(&address, "ipv4:") || absl::ConsumePrefix(&address, "ipv6:");
  if (!are_numbers) return {std::string(address)};
  return absl::StrSplit(address, ',');
}

std::string HostOf(std::string_view address) {
  std::string host = absl::AsciiStrToLower(absl::string_view(address.data(), address.size()));
  if (IsBareIpv6(host)) return host;
  const size_t colon = host.rfind(':');
  if (colon != std::string::npos && host.find(']', colon) == std::string::npos) host.resize(colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return host;
}

// Whether all behind ipv4: or ipv6: are numbers, with ports or without.
bool AreNumbers(absl::string_view address) {
  const bool ipv4 = absl::StartsWith(address, "ipv4:");
  const std::vector<std::string> all = WithoutScheme(address);
  return std::all_of(all.begin(), all.end(), [ipv4](const std::string& one) {
    const std::string host = HostOf(one);
    in_addr number;
    return ipv4 ? inet_pton(AF_INET, host.c_str(), &number) == 1 : IsBareIpv6(host);
  });
}

// A connection to the address of no host, 0.0.0.0 or ::, goes to this machine on Linux.
bool IsLoopbackHost(const std::string& address) {
  const std::string host = HostOf(address);
  in_addr v4;
  in6_addr v6;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    return v4.s_addr == INADDR_ANY || (ntohl(v4.s_addr) >> 24) == 127;
  }
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) {
    if (IN6_IS_ADDR_V4MAPPED(&v6)) return v6.s6_addr[12] == 127;
    return IN6_IS_ADDR_LOOPBACK(&v6) || IN6_IS_ADDR_UNSPECIFIED(&v6);
  }
  return host == "localhost" || host == "localhost.";
}

}  // namespace

std::string HostPort(const std::string& host, int port) {
  const bool bare = host.find(':') != std::string::npos && host.front() != '[';
  return bare ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

bool IsLoopback(std::string_view address) {
  if (address.starts_with("unix:") || address.starts_with("unix-abstract:")) return true;
  const std::vector<std::string> all = WithoutScheme({address.data(), address.size()});
  return std::all_of(all.begin(), all.end(), IsLoopbackHost);
}

absl::StatusOr<ServerAddress> ParseServerAddress(std::string_view text, int default_port) {
  const auto wrong = [&](absl::string_view must = "be HOST:PORT") {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(text), " is no address of a server, must ", must));
  };
  ServerAddress server;
  absl::string_view rest(text.data(), text.size());
  server.tls = ConsumePrefixIgnoringCase(&rest, "https://");
  if (server.tls || ConsumePrefixIgnoringCase(&rest, "http://")) absl::ConsumeSuffix(&rest, "/");
  server.address = std::string(rest);
  if (const absl::string_view scheme = SchemeOf(rest); !scheme.empty()) {
    const absl::string_view named = rest.substr(scheme.size());
    const bool is_path = absl::StartsWith(scheme, "unix");
    if (named.find_first_not_of('/') == absl::string_view::npos) {
      return wrong(absl::StrCat("have ", is_path ? "a path" : "an address", " behind ", scheme));
    }
    if (is_path && absl::StripPrefix(named, "//").size() > kMostPath) {
      return wrong(absl::StrCat("have a path of at most ", kMostPath, " bytes"));
    }
    if (absl::StartsWith(scheme, "ipv") && !AreNumbers(rest)) {
      return wrong(absl::StrCat("have numbers of ", scheme == "ipv4:" ? "IPv4" : "IPv6", " behind ",
                                scheme));
    }
    return server;
  }
  if (rest.empty() || rest.find_first_of("/ \t\n") != absl::string_view::npos) return wrong();
  // A port alone; no host's name is a number.
  if (std::all_of(rest.begin(), rest.end(), absl::ascii_isdigit)) return wrong();
  const size_t colon = rest.rfind(':');
  const bool has_port = colon != absl::string_view::npos && !IsBareIpv6(server.address) &&
                        rest.find(']', colon) == absl::string_view::npos;
  if (!has_port) {
    server.address = HostPort(server.address, default_port);
    return server;
  }
  const absl::string_view host = rest.substr(0, colon), digits = rest.substr(colon + 1);
  const bool is_host = absl::StartsWith(host, "[") == absl::EndsWith(host, "]") &&
                       (absl::StartsWith(host, "[") || !absl::StrContains(host, ":"));
  const bool is_number = std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit);
  int port = 0;
  if (host.empty() || !is_host || !is_number || !absl::SimpleAtoi(digits, &port) || port < 1 ||
      port > 65535) {
    return wrong();
  }
  return server;
}

}  // namespace tvq
