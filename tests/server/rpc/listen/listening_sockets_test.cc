#include "server/rpc/listen/listening_sockets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/rpc/limits/connections/socket_address.h"
#include "tests/base/without_ipv6.h"

namespace tvq {
namespace {

using testing::HasSubstr;

TEST(ListenOnTest, FindsAFreePort) {
  const auto listening = ListenOn("127.0.0.1", 0);
  ASSERT_TRUE(listening.ok()) << listening.status();
  ASSERT_EQ(listening->sockets.size(), 1);
  EXPECT_GT(listening->port, 0);
  EXPECT_EQ(LocalOf(listening->sockets[0].get())->port, listening->port);
}

TEST(ListenOnTest, TakesAnIpv6AddressInBrackets) {
  if (!ListenOn("::1", 0).ok()) GTEST_SKIP() << "this machine has no IPv6";
  const auto listening = ListenOn("[::1]", 0);
  EXPECT_TRUE(listening.ok()) << listening.status();
}

TEST(ListenOnTest, ListensAtAllAddressesOfANameAtTheSamePort) {
  const auto listening = ListenOn("localhost", 0);
  ASSERT_TRUE(listening.ok()) << listening.status();
  for (const Descriptor& socket : listening->sockets) {
    EXPECT_EQ(LocalOf(socket.get())->port, listening->port);
  }
}

TEST(ListenOnTest, TakesAllOfIpv4AndIpv6) {
  for (const char* const host : {"0.0.0.0", "::"}) {
    const auto listening = ListenOn(host, 0);
    ASSERT_TRUE(listening.ok()) << listening.status();
    const auto taken = ListenOn("127.0.0.1", listening->port);
    EXPECT_THAT(taken.status().message(), HasSubstr("the port is in use")) << host;
  }
}

TEST(ListenOnTest, SaysWhatIsWrong) {
  const auto first = ListenOn("127.0.0.1", 0);
  ASSERT_TRUE(first.ok());
  const std::string address = "cannot listen on 127.0.0.1:" + std::to_string(first->port);
  EXPECT_EQ(ListenOn("127.0.0.1", first->port).status().message(),
            address + ": the port is in use");
  EXPECT_EQ(ListenOn("203.0.113.1", 7).status().message(),
            "cannot listen on 203.0.113.1:7: the host is no address of this machine");
  EXPECT_THAT(ListenOn("no such host", 7).status().message(),
              HasSubstr("cannot listen on no such host:7: the host is unknown: "));
}

TEST(ListenOnTest, SaysWhatIsRightWithoutIpv6) {
  const bool without = WithoutIpv6([] {
    EXPECT_EQ(ListenOn("::", 7).status().message(),
              "cannot listen on [::]:7: this system has no IPv6; 0.0.0.0 stands for all addresses "
              "of IPv4, 127.0.0.1 for this machine alone");
    EXPECT_THAT(ListenOn("::1", 7).status().message(), HasSubstr("this system has no IPv6"));
    EXPECT_TRUE(ListenOn("0.0.0.0", 0).ok());
  });
  if (!without) GTEST_SKIP() << "this system filters no calls";
}

}  // namespace
}  // namespace tvq
