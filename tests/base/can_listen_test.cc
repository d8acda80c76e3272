#include "base/can_listen.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace tvq {
namespace {

using ::testing::StartsWith;

// Listens on a port of 127.0.0.1 while it lives.
class Listener {
 public:
  Listener() : descriptor_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(at);
    auto* const address = reinterpret_cast<sockaddr*>(&at);
    EXPECT_EQ(bind(descriptor_, address, size), 0);
    EXPECT_EQ(listen(descriptor_, 1), 0);
    EXPECT_EQ(getsockname(descriptor_, address, &size), 0);
    port_ = ntohs(at.sin_port);
  }
  ~Listener() { close(descriptor_); }
  Listener(const Listener&) = delete;

  int port() const { return port_; }

 private:
  const int descriptor_;
  int port_ = 0;
};

TEST(CanListenTest, APortThatIsTakenIsTold) {
  int port = 0;
  {
    const Listener other;
    port = other.port();
    for (const std::string host : {"127.0.0.1", "localhost", "0.0.0.0"}) {
      EXPECT_EQ(CanListen(host, port).message(),
                "cannot listen on " + host + ":" + std::to_string(port) + ": the port is in use");
    }
    EXPECT_TRUE(CanListen("127.0.0.2", port).ok());
  }
  EXPECT_TRUE(CanListen("127.0.0.1", port).ok());
}

TEST(CanListenTest, AHostThatIsElsewhereIsTold) {
  EXPECT_EQ(CanListen("203.0.113.1", 0).message(),
            "cannot listen on 203.0.113.1:0: the host is no address of this machine");
  EXPECT_THAT(
      std::string(CanListen("no-such-host.invalid", 1).message()),
      StartsWith("cannot listen on no-such-host.invalid:1: the host cannot be looked up, "));
}

TEST(CanListenTest, AnyPortWillDo) {
  for (const char* host : {"127.0.0.1", "localhost", "0.0.0.0"}) {
    EXPECT_TRUE(CanListen(host, 0).ok()) << host;
  }
}

}  // namespace
}  // namespace tvq
