#include "client/gateway/http/peers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

namespace tvq::gateway {
namespace {

using asio::ip::make_address;
using Standing = Peer::Standing;
using std::chrono::milliseconds;
using std::chrono::seconds;

const Peer::Time kNow = Peer::Time() + seconds(1000);

TEST(PeersTest, WhoGivesUpTooManyIsGoodAgainAfterSeconds) {
  Peer peer;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(peer.StandingAt(kNow), i < 200 ? Standing::kGood : Standing::kDoubtful) << i;
    peer.GaveUp(kNow, kNow);
  }
  EXPECT_EQ(peer.StandingAt(kNow), Standing::kBad);
  EXPECT_EQ(peer.StandingAt(kNow + milliseconds(20)), Standing::kDoubtful);
  // However many there were.
  for (int i = 0; i < 1'000'000; ++i) peer.GaveUp(kNow, kNow);
  EXPECT_EQ(peer.StandingAt(kNow + milliseconds(900)), Standing::kBad);
  EXPECT_EQ(peer.StandingAt(kNow + seconds(3)), Standing::kDoubtful);
  EXPECT_EQ(peer.StandingAt(kNow + seconds(7)), Standing::kGood);
}

TEST(PeersTest, SlowlyItMayGiveUpForEver) {
  Peer peer;
  for (int i = 0; i < 10'000; ++i) {
    const Peer::Time now = kNow + i * milliseconds(6);
    ASSERT_EQ(peer.StandingAt(now), Standing::kGood) << i;
    peer.GaveUp(now - seconds(1), now);
  }
}

// As where a proxy in front stops with all of its streams.
TEST(PeersTest, LongCallsAreGivenUpFreely) {
  Peer peer;
  for (int i = 0; i < 10'000; ++i) peer.GaveUp(kNow - milliseconds(2001), kNow);
  EXPECT_EQ(peer.StandingAt(kNow), Standing::kGood);
}

TEST(PeersTest, ConnectionsOfAnAddress) {
  Peers peers(20, 2);
  const auto first = peers.Connect(make_address("10.0.0.1"), kNow);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(peers.Connect(make_address("::ffff:10.0.0.1"), kNow), first);
  EXPECT_EQ(peers.Connect(make_address("10.0.0.1"), kNow), nullptr);
  EXPECT_NE(peers.Connect(make_address("10.0.0.2"), kNow), nullptr);
  peers.Disconnect(*first);
  EXPECT_EQ(peers.Connect(make_address("10.0.0.1"), kNow), first);
  EXPECT_EQ(peers.Connect(make_address("10.0.0.1"), kNow), nullptr);
}

class SharedConnectionsTest : public testing::Test {
 protected:
  // As many as this address may have.
  int ConnectAll(uint32_t address) {
    int connections = 0;
    while (all_ < kAll && peers_.Connect(asio::ip::address_v4(address), kNow)) {
      ++connections;
      ++all_;
    }
    return connections;
  }

  static constexpr int kAll = 2000;
  int all_ = 0;
  Peers peers_{kAll, kAll / 2};
};

TEST_F(SharedConnectionsTest, AddressesWithManyLeaveSomeToOthers) {
  EXPECT_EQ(ConnectAll(1), 1000);
  EXPECT_EQ(ConnectAll(2), 820) << "15 times what it leaves to others";
  EXPECT_GT(ConnectAll(3), 10);
  EXPECT_EQ(ConnectAll(1), 0);
  uint32_t others = 0;
  while (ConnectAll(4 + others) > 0) ++others;
  EXPECT_GE(others, kAll / 16);
  EXPECT_EQ(all_, kAll);
}

TEST(PeersTest, OneAddressMayHaveAllWhereItIsToldTo) {
  Peers peers(20, 20);
  for (int i = 0; i < 20; ++i) EXPECT_NE(peers.Connect(make_address("10.0.0.1"), kNow), nullptr);
}

// A client chooses freely among the addresses of its network.
TEST(PeersTest, NetworksOfIPv6AreOnePeer) {
  Peers peers(100, 10);
  const auto peer = peers.Connect(make_address("2001:db8::1"), kNow);
  EXPECT_EQ(peers.Connect(make_address("2001:db8::ff:ffff:0:0:1"), kNow), peer);
  EXPECT_NE(peers.Connect(make_address("2001:db8:0:100::1"), kNow), peer);
}

TEST(PeersTest, ForgetsThoseThatAreGone) {
  Peers peers(100, 10);
  const auto stays = peers.Connect(make_address("10.0.0.1"), kNow);
  const auto gave_up = peers.Connect(make_address("10.0.0.2"), kNow);
  gave_up->GaveUp(kNow, kNow);
  peers.Disconnect(*gave_up);
  for (int i = 0; i < 100'000; ++i) {
    const auto address = asio::ip::address_v4(static_cast<uint32_t>(0x0b000000 + i));
    peers.Disconnect(*peers.Connect(address, kNow));
    ASSERT_LE(peers.size(), 1000);
  }
  EXPECT_EQ(peers.Connect(make_address("10.0.0.1"), kNow), stays);
  EXPECT_EQ(peers.Connect(make_address("10.0.0.2"), kNow), gave_up);
}

}  // namespace
}  // namespace tvq::gateway
