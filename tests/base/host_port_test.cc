#include "base/host_port.h"

#include <gtest/gtest.h>

namespace tvq {
namespace {

TEST(HostPortTest, PutsAnIpv6AddressIntoBrackets) {
  EXPECT_EQ(HostPort("::1", 50051), "[::1]:50051");
  EXPECT_EQ(HostPort("[::1]", 50051), "[::1]:50051");
  EXPECT_EQ(HostPort("127.0.0.1", 50051), "127.0.0.1:50051");
  EXPECT_EQ(HostPort("localhost", 0), "localhost:0");
  EXPECT_EQ(HostPort("", 1), ":1");
}

}  // namespace
}  // namespace tvq
