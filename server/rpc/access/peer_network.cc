#include "server/rpc/access/peer_network.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>

#include "absl/strings/strip.h"
#include "base/network.h"

namespace tvq {
namespace {

// The host of "[HOST%ZONE]:PORT", whose brackets gRPC may have escaped, as in a URI, or of
// "HOST:PORT".
std::string HostOf(std::string_view address) {
  address = address.substr(0, address.find_last_of(':'));
  absl::string_view host(address.data(), address.size());
  for (const char* const bracket : {"[", "%5B"}) absl::ConsumePrefix(&host, bracket);
  for (const char* const bracket : {"]", "%5D"}) absl::ConsumeSuffix(&host, bracket);
  return std::string(host.substr(0, host.find('%')));
}

// Its bytes; none for what is no such address.
std::string Parse(int family, const std::string& host) {
  std::string bytes(family == AF_INET ? sizeof(in_addr) : sizeof(in6_addr), '\0');
  return inet_pton(family, host.c_str(), bytes.data()) == 1 ? bytes : "";
}

}  // namespace

std::string NetworkOfPeer(std::string_view peer) {
  const std::string_view kind = peer.substr(0, peer.find(':'));
  const std::string host = HostOf(peer.substr(std::min(peer.size(), kind.size() + 1)));
  std::string ip;
  if (kind == "ipv4") ip = Parse(AF_INET, host);
  if (kind == "ipv6") ip = Parse(AF_INET6, host);
  return ip.empty() ? std::string(kind) : NetworkOf(ip);
}

}  // namespace tvq
