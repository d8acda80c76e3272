#include "server/rpc/access/network.h"

#include <gtest/gtest.h>

namespace tvq {
namespace {

TEST(NetworkTest, AnAddressOfIpv4IsOne) {
  EXPECT_EQ(NetworkOf("ipv4:192.0.2.1:50051"), "192.0.2.1");
  EXPECT_EQ(NetworkOf("ipv4:127.0.0.2:1"), "127.0.0.2");
}

TEST(NetworkTest, OfIpv6ItIs56Bits) {
  EXPECT_EQ(NetworkOf("ipv6:%5B2001:db8:0:12ab:1:2:3:4%5D:50051"), "2001:db8:0:1200::/56");
  EXPECT_EQ(NetworkOf("ipv6:[2001:db8:0:12ff::]:50051"), "2001:db8:0:1200::/56");
  EXPECT_EQ(NetworkOf("ipv6:[2001:db8:0:1300::]:50051"), "2001:db8:0:1300::/56");
  EXPECT_EQ(NetworkOf("ipv6:%5B::1%5D:50051"), "::/56");
  EXPECT_EQ(NetworkOf("ipv6:%5Bfe80::1%25eth0%5D:50051"), "fe80::/56");
  EXPECT_EQ(NetworkOf("ipv6:[fe80::1%eth0]:50051"), "fe80::/56");
}

TEST(NetworkTest, Ipv4ThroughASocketOfIpv6IsIpv4) {
  EXPECT_EQ(NetworkOf("ipv6:%5B::ffff:192.0.2.1%5D:50051"), "192.0.2.1");
}

TEST(NetworkTest, OtherPeersAreTheirKind) {
  EXPECT_EQ(NetworkOf("unix:/run/tvq.sock"), "unix");
  EXPECT_EQ(NetworkOf("unix:"), "unix");
  EXPECT_EQ(NetworkOf("ipv6:nonsense"), "ipv6");
  EXPECT_EQ(NetworkOf("ipv6:"), "ipv6");
  EXPECT_EQ(NetworkOf("unknown"), "unknown");
  EXPECT_EQ(NetworkOf(""), "");
}

}  // namespace
}  // namespace tvq
