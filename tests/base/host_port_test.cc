#include "base/host_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tvq {
namespace {

TEST(HostPortTest, PutsAnIpv6AddressIntoBrackets) {
  EXPECT_EQ(HostPort("::1", 50051), "[::1]:50051");
  EXPECT_EQ(HostPort("[::1]", 50051), "[::1]:50051");
  EXPECT_EQ(HostPort("127.0.0.1", 50051), "127.0.0.1:50051");
  EXPECT_EQ(HostPort("localhost", 0), "localhost:0");
  EXPECT_EQ(HostPort("", 1), ":1");
}

TEST(HostPortTest, OnlyThisMachineIsLoopback) {
  for (const char* address : {"localhost",
                              "localhost:1",
                              "127.0.0.1:80",
                              "127.8.0.1",
                              "[::1]:5",
                              "[::1]",
                              "::1",
                              "unix:/tmp/s",
                              "LOCALHOST:1",
                              "localhost.",
                              "localhost.:1",
                              "0.0.0.0:1",
                              "[::]:1",
                              "[::ffff:127.0.0.1]:1",
                              "dns:localhost:1",
                              "dns:///localhost",
                              "dns:///127.0.0.1:1",
                              "dns://10.0.0.1/localhost:1",
                              "ipv4:127.0.0.1:1",
                              "ipv4:127.0.0.1:1,127.0.0.2:1",
                              "ipv6:[::1]:1"}) {
    EXPECT_TRUE(IsLoopback(address)) << address;
  }
  for (const char* address :
       {"10.0.0.1:80", "example.com:80", "127.0.0.1.example.com:80", "[::ffff:10.0.0.1]:1",
        "dns:///example.com:1", "dns://127.0.0.1/example.com:1", "dns://localhost",
        "ipv4:127.0.0.1:1,10.0.0.1:1", "[::2]:5", "localhost.example.com:1", ""}) {
    EXPECT_FALSE(IsLoopback(address)) << address;
  }
}

TEST(HostPortTest, TakesAnAddressAsPeopleWriteIt) {
  const auto parsed = [](const char* text) {
    const auto server = ParseServerAddress(text, 50051);
    return server.ok() ? server->address + (server->tls ? " tls" : "") : "";
  };
  EXPECT_EQ(parsed("localhost:1"), "localhost:1");
  EXPECT_EQ(parsed("localhost"), "localhost:50051");
  EXPECT_EQ(parsed("http://10.0.0.1:7/"), "10.0.0.1:7");
  EXPECT_EQ(parsed("https://tvq.example.com"), "tvq.example.com:50051 tls");
  EXPECT_EQ(parsed("HTTP://10.0.0.1:7/"), "10.0.0.1:7");
  EXPECT_EQ(parsed("Https://tvq.example.com"), "tvq.example.com:50051 tls");
  EXPECT_EQ(parsed("::1"), "[::1]:50051");
  EXPECT_EQ(parsed("[::1]"), "[::1]:50051");
  EXPECT_EQ(parsed("[::1]:9"), "[::1]:9");
  EXPECT_EQ(parsed("fe80::1%eth0"), "[fe80::1%eth0]:50051");
  EXPECT_EQ(parsed("[fe80::1%eth0]"), "[fe80::1%eth0]:50051");
  EXPECT_EQ(parsed("[fe80::1%eth0]:9"), "[fe80::1%eth0]:9");
  EXPECT_EQ(parsed("ipv6:[fe80::1%25eth0]:9"), "ipv6:[fe80::1%25eth0]:9");
  EXPECT_EQ(parsed("unix:/tmp/socket"), "unix:/tmp/socket");
  EXPECT_EQ(parsed("dns:///name:5"), "dns:///name:5");
  EXPECT_EQ(parsed("ipv4:10.0.0.1:1,10.0.0.2:1"), "ipv4:10.0.0.1:1,10.0.0.2:1");
  for (const char* wrong :
       {"", ":50051", "host:", "host:0", "host:65536", "host:port", "host:1/path", "http://",
        "ftp://host:1", "two words:1", "a:b:5", "[::1", "::1:50051:1x", "fe80::1%",
        "fe80::1%eth0:9", "host:+5", "host:5\n", "50051", "http://50051"}) {
    EXPECT_EQ(ParseServerAddress(wrong, 50051).status().code(), absl::StatusCode::kInvalidArgument)
        << wrong;
  }
}

TEST(HostPortTest, ASchemeNamesSomething) {
  const auto complaint = [](const std::string& text) {
    return std::string(ParseServerAddress(text, 50051).status().message());
  };
  EXPECT_EQ(complaint("unix:"),
            "\"unix:\" is no address of a server, must have a path behind unix:");
  EXPECT_EQ(complaint("unix:///"),
            "\"unix:///\" is no address of a server, must have a path behind unix:");
  EXPECT_EQ(complaint("dns:///"),
            "\"dns:///\" is no address of a server, must have an address behind dns:");
  EXPECT_EQ(
      complaint("ipv4:10.0.0.1:1,name:1"),
      "\"ipv4:10.0.0.1:1,name:1\" is no address of a server, must have numbers of IPv4 behind "
      "ipv4:");
  EXPECT_THAT(complaint("ipv6:10.0.0.1:1"),
              testing::EndsWith("must have numbers of IPv6 behind ipv6:"));
  EXPECT_EQ(complaint("ipv6:[::1]:1,::2"), "");
  EXPECT_THAT(complaint("xds:///name"), testing::EndsWith("must be HOST:PORT"));
  EXPECT_EQ(complaint("unix:" + std::string(107, 'x')), "");
  EXPECT_EQ(complaint("unix:///" + std::string(106, 'x')), "");
  EXPECT_THAT(complaint("unix:" + std::string(108, 'x')),
              testing::EndsWith("must have a path of at most 107 bytes"));
}

}  // namespace
}  // namespace tvq
