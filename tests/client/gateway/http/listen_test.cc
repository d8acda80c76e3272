#include "client/gateway/http/listen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <string>
#include <vector>

#include "tests/base/without_ipv6.h"

namespace tvq::gateway {
namespace {

using asio::ip::tcp;
using testing::HasSubstr;

tcp::endpoint At(const std::string& address, int port = 0) {
  return {asio::ip::make_address(address), static_cast<asio::ip::port_type>(port)};
}

class ListenTest : public testing::Test {
 protected:
  // Whether something accepts there.
  bool Connects(const std::string& address, int port) {
    tcp::socket socket(loop_);
    boost::system::error_code error;
    socket.connect(At(address, port), error);
    return !error;
  }

  asio::io_context loop_;
};

TEST_F(ListenTest, AllAddressesHaveOnePort) {
  auto listeners = ListenOn(loop_.get_executor(), {At("127.0.0.1"), At("127.0.0.2")});
  ASSERT_TRUE(listeners.ok()) << listeners.status();
  ASSERT_EQ(listeners->acceptors.size(), 2);
  const int port = listeners->acceptors[0].local_endpoint().port();
  EXPECT_EQ(listeners->acceptors[1].local_endpoint(), At("127.0.0.2", port));
  EXPECT_TRUE(Connects("127.0.0.1", port));
  EXPECT_TRUE(Connects("127.0.0.2", port));
  EXPECT_FALSE(Connects("127.0.0.3", port));
}

// :: alone takes connections over IPv4, too, and would leave no place for 0.0.0.0.
TEST_F(ListenTest, BothFamiliesHaveSocketsOfTheirOwn) {
  const auto listeners = ListenOn(loop_.get_executor(), {At("::"), At("0.0.0.0")});
  ASSERT_TRUE(listeners.ok()) << listeners.status();
  EXPECT_EQ(listeners->acceptors.size() + listeners->unavailable.size(), 2);
  EXPECT_TRUE(Connects("127.0.0.1", listeners->acceptors.back().local_endpoint().port()));
}

// As where a file of hosts says that localhost is ::1 and the machine has no IPv6. 203.0.113.0/24
// is for documentation.
TEST_F(ListenTest, AddressThatTheMachineLacksIsLeftOut) {
  for (const auto& endpoints : {std::vector{At("203.0.113.1"), At("127.0.0.1")},
                                std::vector{At("127.0.0.1"), At("203.0.113.1")}}) {
    const auto listeners = ListenOn(loop_.get_executor(), endpoints);
    ASSERT_TRUE(listeners.ok()) << listeners.status();
    ASSERT_EQ(listeners->acceptors.size(), 1);
    EXPECT_EQ(listeners->acceptors[0].local_endpoint().address(), At("127.0.0.1").address());
    ASSERT_EQ(listeners->unavailable.size(), 1);
    EXPECT_EQ(listeners->unavailable[0].address(), At("203.0.113.1").address());
  }
  const auto none = ListenOn(loop_.get_executor(), {At("203.0.113.1", 8000)});
  EXPECT_TRUE(absl::IsUnavailable(none.status()));
  EXPECT_THAT(
      none.status().message(),
      HasSubstr("cannot listen on 203.0.113.1:8000: the host is no address of this machine"));
}

// Half a service would hide that another program answers at the other address.
TEST_F(ListenTest, AddressThatIsTakenFailsAll) {
  const auto other = ListenOn(loop_.get_executor(), {At("127.0.0.2")});
  ASSERT_TRUE(other.ok()) << other.status();
  const int port = other->acceptors[0].local_endpoint().port();
  const auto listeners =
      ListenOn(loop_.get_executor(), {At("127.0.0.3", port), At("127.0.0.2", port)});
  EXPECT_TRUE(absl::IsUnavailable(listeners.status()));
  EXPECT_THAT(listeners.status().message(), HasSubstr("cannot listen on 127.0.0.2:"));
}

TEST_F(ListenTest, SaysWhatIsRightWithoutIpv6) {
  const bool without = WithoutIpv6([this] {
    const auto listeners = ListenOn(loop_.get_executor(), {At("::", 8000)});
    EXPECT_THAT(listeners.status().message(),
                HasSubstr("cannot listen on [::]:8000: this system has no IPv6; 0.0.0.0 stands "));
  });
  if (!without) GTEST_SKIP() << "this system filters no calls";
}

TEST_F(ListenTest, NamesAndAddressesResolve) {
  const auto address = Resolve(loop_.get_executor(), "127.0.0.1", 80);
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(*address, std::vector{At("127.0.0.1", 80)});
  // Without a name all addresses, of both families where there are both.
  const auto all = Resolve(loop_.get_executor(), "", 0);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(*all, testing::Contains(At("0.0.0.0")));
  const auto none = Resolve(loop_.get_executor(), "no address", 80);
  EXPECT_TRUE(absl::IsUnavailable(none.status()));
  EXPECT_THAT(none.status().message(),
              HasSubstr("cannot listen on no address:80: the host is unknown"));
}

}  // namespace
}  // namespace tvq::gateway
