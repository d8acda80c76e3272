#include "base/network.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

constexpr size_t kPrefixBytes = 7;

std::string Text(int family, const void* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(family, address, text.data(), text.size());
  return text.data();
}

}  // namespace

std::string NetworkOf(std::string_view ip) {
  if (ip.size() == sizeof(in_addr)) return Text(AF_INET, ip.data());
  in6_addr ipv6{};
  if (ip.size() != sizeof(ipv6)) return "";
  std::ranges::copy(ip, ipv6.s6_addr);
  constexpr size_t kIpv4 = sizeof(in6_addr) - sizeof(in_addr);
  if (IN6_IS_ADDR_V4MAPPED(&ipv6)) return Text(AF_INET, ipv6.s6_addr + kIpv4);
  std::fill(ipv6.s6_addr + kPrefixBytes, ipv6.s6_addr + sizeof(ipv6), uint8_t{0});
  return absl::StrCat(Text(AF_INET6, &ipv6), "/", 8 * kPrefixBytes);
}

}  // namespace tvq
