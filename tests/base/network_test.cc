#include "base/network.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

namespace tvq {
namespace {

std::string Bytes(int family, const char* text) {
  std::string bytes(family == AF_INET ? sizeof(in_addr) : sizeof(in6_addr), '\0');
  EXPECT_EQ(inet_pton(family, text, bytes.data()), 1) << text;
  return bytes;
}

std::string NetworkOfIpv6(const char* text) { return NetworkOf(Bytes(AF_INET6, text)); }

TEST(NetworkTest, AnAddressOfIpv4IsOne) {
  EXPECT_EQ(NetworkOf(Bytes(AF_INET, "192.0.2.1")), "192.0.2.1");
  EXPECT_EQ(NetworkOf(Bytes(AF_INET, "127.0.0.2")), "127.0.0.2");
}

TEST(NetworkTest, OfIpv6ItIs56Bits) {
  EXPECT_EQ(NetworkOfIpv6("2001:db8:0:12ab:1:2:3:4"), "2001:db8:0:1200::/56");
  EXPECT_EQ(NetworkOfIpv6("2001:db8:0:12ff::"), "2001:db8:0:1200::/56");
  EXPECT_EQ(NetworkOfIpv6("2001:db8:0:1300::"), "2001:db8:0:1300::/56");
  EXPECT_EQ(NetworkOfIpv6("::1"), "::/56");
}

TEST(NetworkTest, Ipv4ThroughASocketOfIpv6IsIpv4) {
  EXPECT_EQ(NetworkOfIpv6("::ffff:192.0.2.1"), "192.0.2.1");
}

}  // namespace
}  // namespace tvq
