#include "client/cpp/unreachable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cpp/proxy.h"

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
  EXPECT_EQ(Unreachable("errors resolving nosuch:50051: [field:hostname lookup error:address "
                        "lookup failed for nosuch:50051: Domain name not found]"),
            "No server at nosuch:50051: there is no such name. Is tvq-server running?");
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

TEST(UnreachableTest, SaysThatTheConnectionBroke) {
  for (const char* message :
       {"Socket closed", "recvmsg:Connection reset by peer", "sendmsg: Broken pipe (32)",
        "Connection reset by peer", "Broken pipe", "GOAWAY received", "keepalive watchdog timeout",
        "ping timeout"}) {
    EXPECT_EQ(
        Unreachable(message),
        "The connection to the server broke: the server ended or closed it, or is out of reach.")
        << message;
  }
}

// What `reason` becomes behind the address.
std::string Told(const std::string& reason) {
  const std::string told = Unreachable(
      "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:1: " + reason);
  return std::string(absl::StripPrefix(told, "10.0.0.1:1 "));
}

TEST(UnreachableTest, SaysWhatIsWrongWithTls) {
  const std::string distrusted =
      "shows a certificate that no authority signed which this client trusts, or that has expired. "
      "Give the CA certificates that its own comes from.";
  EXPECT_EQ(Told("Ssl handshake failed: SSL_ERROR_SSL: error:0A000086:SSL routines::certificate "
                 "verify failed"),
            distrusted);
  EXPECT_EQ(Told("Ssl handshake failed: SSL_ERROR_SSL: error:1000007d:SSL routines:"
                 "OPENSSL_internal:CERTIFICATE_VERIFY_FAILED"),
            distrusted);
  EXPECT_THAT(Told("Ssl handshake failed: SSL_ERROR_SSL: error:0A00010B:SSL routines::wrong "
                   "version number"),
              testing::StartsWith("does not speak TLS. Leave out https://"));
  EXPECT_EQ(Told("Peer name 10.0.0.1 is not in peer certificate"),
            "shows a certificate that is of another name.");
  EXPECT_THAT(Told("Cannot check peer: missing selected ALPN property."),
              testing::StartsWith("speaks HTTPS, as tvq-gateway does."));
  for (const char* alert :
       {"error:0A00045C:SSL routines::tlsv13 alert certificate required",
        "error:10000418:SSL routines:OPENSSL_internal:TLSV1_ALERT_UNKNOWN_CA"}) {
    EXPECT_EQ(Told(absl::StrCat("SSL_ERROR_SSL: ", alert)),
              "does not believe the certificate of this client, or wants one.");
  }
  EXPECT_THAT(Told("SSL_ERROR_SSL: error:0A000438:SSL routines::tlsv1 alert internal error"),
              testing::StartsWith("Cannot connect to 10.0.0.1:1: SSL_ERROR_SSL: "));
  EXPECT_THAT(Told("Socket closed"),
              testing::StartsWith("Cannot connect to 10.0.0.1:1: it closes the connection. Does "));
}

class ProxyTest : public testing::Test {
 protected:
  ProxyTest() { Unset(); }
  ~ProxyTest() override { Unset(); }
  static void Unset() {
    for (const char* variable : {"grpc_proxy", "https_proxy", "http_proxy"}) unsetenv(variable);
  }
  static void Set(const char* variable, const char* value) {
    ASSERT_EQ(setenv(variable, value, /*overwrite=*/1), 0);
  }
};

constexpr char kOfHttps[] =
    " It is the proxy of https_proxy; calls go past it to servers that no_proxy names.";

TEST_F(ProxyTest, TheVariableIsNamed) {
  Set("http_proxy", "http://127.0.0.1:91/");
  EXPECT_EQ(Unreachable(kRefused),
            "No server at 127.0.0.1:91. It is the proxy of http_proxy; calls go past it to servers "
            "that no_proxy names. Is tvq-server running?");
  Set("http_proxy", "http://127.0.0.1:92");
  EXPECT_EQ(Unreachable(kRefused), "No server at 127.0.0.1:91. Is tvq-server running?");
}

TEST_F(ProxyTest, TheVariableIsNamedOfAProxyWithoutAnAddress) {
  Set("https_proxy", "http://no.such.proxy.example:3128");
  const std::string message =
      "No server at no.such.proxy.example:3128: there is no such name." + std::string(kOfHttps);
  EXPECT_EQ(Unreachable("DNS resolution failed for no.such.proxy.example:3128: C-ares status is "
                        "not ARES_SUCCESS: Domain name not found"),
            message + " Is tvq-server running?");
  Set("https_proxy", "http://user:secret@no.such.proxy.example");
  EXPECT_THAT(Unreachable("DNS resolution failed for no.such.proxy.example: Domain name not found"),
              testing::HasSubstr(kOfHttps));
}

TEST_F(ProxyTest, TheVariableIsNamedOfAProxyThatRefuses) {
  Set("https_proxy", "http://127.0.0.1:91");
  const std::string begin =
      "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:91: ";
  EXPECT_EQ(Unreachable(begin + "HTTP proxy returned response code 502"),
            "The proxy at 127.0.0.1:91 answers 502 instead of a connection to the server." +
                std::string(kOfHttps));
  EXPECT_THAT(Unreachable(begin + "Socket closed"),
              testing::StartsWith("Cannot connect to 127.0.0.1:91: it closes the connection." +
                                  std::string(kOfHttps) + " Does the server speak TLS"));
}

TEST_F(ProxyTest, TheVariableIsNamedOfAProxyThatIsSilent) {
  EXPECT_EQ(ThroughProxy("10.0.0.1:1"), "");
  Set("http_proxy", "http://10.0.0.2:91");
  EXPECT_EQ(ThroughProxy("10.0.0.1:1"),
            " It may be the proxy of http_proxy that is silent; calls go past it to servers that "
            "no_proxy names.");
  for (const char* here : {"127.0.0.1:1", "localhost:1", "[::1]:1", "unix:/tmp/socket"}) {
    EXPECT_EQ(ThroughProxy(here), "") << here;
  }
}

}  // namespace
}  // namespace tvq::client
