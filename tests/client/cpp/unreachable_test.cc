#include "client/cpp/unreachable.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace tvq::client {
namespace {

constexpr char kRefused[] =
    "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:91: Failed to connect "
    "to remote host: Connection refused";

TEST(UnreachableTest, SaysWhereThereIsNoServer) {
  EXPECT_EQ(Unreachable(kRefused), "No server at 127.0.0.1:91. Is tvq-server running?");
  EXPECT_EQ(Unreachable("failed to connect to all addresses; last error: UNKNOWN: "
                        "ipv6:%5B::1%5D:1: Failed to connect to remote host: Connection refused"),
            "No server at [::1]:1. Is tvq-server running?");
  EXPECT_EQ(Unreachable("failed to connect to all addresses; last error: UNKNOWN: unix:/tmp/none: "
                        "No such file or directory"),
            "No server at unix:/tmp/none. Is tvq-server running?");
  EXPECT_EQ(Unreachable("failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:1: "
                        "Failed to connect to remote host: No route to host"),
            "No server at 10.0.0.1:1 (No route to host). Is tvq-server running?");
  EXPECT_EQ(Unreachable("DNS resolution failed for nosuch:50051: C-ares status is not ARES_SUCCESS "
                        "qtype=AAAA name=nosuch is_balancer=0: Domain name not found"),
            "No server at nosuch:50051: there is no such name. Is tvq-server running?");
}

TEST(UnreachableTest, TellsAServerThatRefusesFromNone) {
  EXPECT_EQ(
      Unreachable("failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:1: "
                  "Ssl handshake failed: SSL_ERROR_SSL"),
      "Cannot connect to 10.0.0.1:1: Ssl handshake failed: SSL_ERROR_SSL. Does the server speak "
      "TLS, or not, and who signed its certificate?");
  EXPECT_EQ(Unreachable("DNS resolution failed for a:1: Could not contact DNS servers"),
            "No server at a:1: the name cannot be looked up. Is tvq-server running?");
}

TEST(UnreachableTest, TakesTheWordsOfNewerVersions) {
  EXPECT_EQ(
      Unreachable("failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: "
                  "Failed to connect to remote host: connect: Connection refused (111)"),
      "No server at 127.0.0.1:1. Is tvq-server running?");
}

TEST(UnreachableTest, KnowsTheGateway) {
  EXPECT_EQ(Unreachable("failed to connect to all addresses; last error: UNAVAILABLE: "
                        "ipv4:127.0.0.1:8000: Failed parsing HTTP/2"),
            "127.0.0.1:8000 speaks HTTP, as tvq-gateway does. Give the address of tvq-server "
            "itself, of which the port is 50051 by default.");
}

TEST(UnreachableTest, LeavesOtherMessagesAlone) {
  EXPECT_EQ(Unreachable(""), "");
  EXPECT_EQ(Unreachable("the server is draining"), "");
  EXPECT_EQ(Unreachable("failed to connect to all addresses; last error: "), "");
  EXPECT_EQ(Unreachable("failed to connect to all addresses; last error: UNKNOWN: x"), "");
}

TEST(UnreachableTest, NamesTheVariableOfAProxy) {
  for (const char* variable : {"grpc_proxy", "https_proxy"}) unsetenv(variable);
  ASSERT_EQ(setenv("http_proxy", "http://127.0.0.1:91/", /*overwrite=*/1), 0);
  EXPECT_EQ(Unreachable(kRefused),
            "No server at 127.0.0.1:91. It is the proxy of http_proxy; calls go past it to servers "
            "that no_proxy names. Is tvq-server running?");
  ASSERT_EQ(setenv("http_proxy", "http://127.0.0.1:92", /*overwrite=*/1), 0);
  EXPECT_EQ(Unreachable(kRefused), "No server at 127.0.0.1:91. Is tvq-server running?");
  ASSERT_EQ(unsetenv("http_proxy"), 0);
}

}  // namespace
}  // namespace tvq::client
