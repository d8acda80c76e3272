#include "server/metrics/endpoint.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "tests/base/without_ipv6.h"

namespace tvq {
namespace {

using testing::HasSubstr;

// A socket bound to a free port of 127.0.0.1.
class Socket {
 public:
  Socket() : descriptor_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(descriptor_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~Socket() { close(descriptor_); }

  int port() const { return port_; }
  void Listen() const { EXPECT_EQ(listen(descriptor_, 1), 0); }

 private:
  const int descriptor_;
  int port_ = 0;
};

int FreePort() { return Socket().port(); }

std::string Local(int port) { return "127.0.0.1:" + std::to_string(port); }

std::string Get(int port, const std::string& path) {
  const int connection = socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in address{.sin_family = AF_INET,
                            .sin_port = htons(static_cast<uint16_t>(port)),
                            .sin_addr = {htonl(INADDR_LOOPBACK)}};
  EXPECT_EQ(connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
  EXPECT_EQ(write(connection, request.data(), request.size()),
            static_cast<ssize_t>(request.size()));
  std::string answer(1 << 16, '\0');
  size_t size = 0;
  while (size < answer.size()) {
    const ssize_t got = read(connection, answer.data() + size, answer.size() - size);
    if (got <= 0) break;
    size += static_cast<size_t>(got);
  }
  close(connection);
  answer.resize(size);
  return answer;
}

TEST(MetricsEndpointTest, ServesASnapshotOfTheMoment) {
  const int port = FreePort();
  int64_t scrapes = 0;
  const auto endpoint = MetricsEndpoint::Start(Local(port), [&] {
    MetricsSnapshot snapshot;
    snapshot.engine.steps = ++scrapes;
    return snapshot;
  });
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  EXPECT_THAT(Get(port, "/metrics"), HasSubstr("\ntvq_engine_steps_total 1\n"));
  EXPECT_THAT(Get(port, "/metrics"), HasSubstr("\ntvq_engine_steps_total 2\n"));
  EXPECT_THAT(Get(port, "/"), HasSubstr("404"));
}

TEST(MetricsEndpointTest, SaysWhatIsRightWithoutIpv6) {
  const bool without = WithoutIpv6([] {
    const auto endpoint = MetricsEndpoint::Start("[::]:7", [] { return MetricsSnapshot(); });
    EXPECT_THAT(
        endpoint.status().message(),
        HasSubstr("cannot listen on [::]:7 for metrics: this system has no IPv6; 0.0.0.0 "));
  });
  if (!without) GTEST_SKIP() << "this system filters no calls";
}

TEST(MetricsEndpointTest, NamesTheAddressItCannotHave) {
  const Socket taken;
  taken.Listen();
  const auto endpoint =
      MetricsEndpoint::Start(Local(taken.port()), [] { return MetricsSnapshot(); });
  EXPECT_EQ(endpoint.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(endpoint.status().message()),
              HasSubstr("127.0.0.1:" + std::to_string(taken.port())));
  EXPECT_FALSE(MetricsEndpoint::Start("no-such-host.invalid:" + std::to_string(FreePort()), [] {
                 return MetricsSnapshot();
               }).ok());
}

}  // namespace
}  // namespace tvq
