#include "server/rpc/access/network.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace tvq {
namespace {

constexpr size_t kPrefixBytes = 7;

// The host of "[HOST%ZONE]:PORT", whose brackets gRPC may have escaped, as in a URI.
std::string Ipv6Host(std::string_view address) {
  address = address.substr(0, address.find_last_of(':'));
  absl::string_view host(address.data(), address.size());
  for (const char* const bracket : {"[", "%5B"}) absl::ConsumePrefix(&host, bracket);
  for (const char* const bracket : {"]", "%5D"}) absl::ConsumeSuffix(&host, bracket);
  return std::string(host.substr(0, host.find('%')));
}

std::string Text(int family, const void* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(family, address, text.data(), text.size());
  return text.data();
}

}  // namespace

std::string NetworkOf(std::string_view peer) {
  const std::string_view kind = peer.substr(0, peer.find(':'));
  const std::string_view address = peer.substr(std::min(peer.size(), kind.size() + 1));
  if (kind == "ipv4") return std::string(address.substr(0, address.find(':')));
  in6_addr ipv6{};
  if (kind != "ipv6" || inet_pton(AF_INET6, Ipv6Host(address).c_str(), &ipv6) != 1) {
    return std::string(kind);
  }
  constexpr size_t kIpv4 = sizeof(in6_addr) - sizeof(in_addr);
  if (IN6_IS_ADDR_V4MAPPED(&ipv6)) return Text(AF_INET, ipv6.s6_addr + kIpv4);
  std::fill(ipv6.s6_addr + kPrefixBytes, ipv6.s6_addr + sizeof(ipv6), uint8_t{0});
  return absl::StrCat(Text(AF_INET6, &ipv6), "/", 8 * kPrefixBytes);
}

}  // namespace tvq
