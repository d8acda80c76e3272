#include "server/rpc/access/peer_network.h"

#include <gtest/gtest.h>

namespace tvq {
namespace {

TEST(PeerNetworkTest, AnAddressOfIpv4IsOne) {
  EXPECT_EQ(NetworkOfPeer("ipv4:192.0.2.1:50051"), "192.0.2.1");
  EXPECT_EQ(NetworkOfPeer("ipv4:127.0.0.2:1"), "127.0.0.2");
}

TEST(PeerNetworkTest, OfIpv6ItIs56Bits) {
  EXPECT_EQ(NetworkOfPeer("ipv6:%5B2001:db8:0:12ab:1:2:3:4%5D:50051"), "2001:db8:0:1200::/56");
  EXPECT_EQ(NetworkOfPeer("ipv6:[2001:db8:0:12ff::]:50051"), "2001:db8:0:1200::/56");
  EXPECT_EQ(NetworkOfPeer("ipv6:%5B::1%5D:50051"), "::/56");
  EXPECT_EQ(NetworkOfPeer("ipv6:%5Bfe80::1%25eth0%5D:50051"), "fe80::/56");
  EXPECT_EQ(NetworkOfPeer("ipv6:[fe80::1%eth0]:50051"), "fe80::/56");
  EXPECT_EQ(NetworkOfPeer("ipv6:%5B::ffff:192.0.2.1%5D:50051"), "192.0.2.1");
}

TEST(PeerNetworkTest, OtherPeersAreTheirKind) {
  EXPECT_EQ(NetworkOfPeer("unix:/run/tvq.sock"), "unix");
  EXPECT_EQ(NetworkOfPeer("unix:"), "unix");
  EXPECT_EQ(NetworkOfPeer("ipv4:nonsense"), "ipv4");
  EXPECT_EQ(NetworkOfPeer("ipv6:nonsense"), "ipv6");
  EXPECT_EQ(NetworkOfPeer("ipv6:"), "ipv6");
  EXPECT_EQ(NetworkOfPeer("unknown"), "unknown");
  EXPECT_EQ(NetworkOfPeer(""), "");
}

}  // namespace
}  // namespace tvq
