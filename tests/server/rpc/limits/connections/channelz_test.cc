#include "server/rpc/limits/connections/channelz.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/rpc/limits/connections/grpc_connection.h"

namespace tvq {
namespace {

template <typename Done>
void WaitUntil(const Done& done) {
  while (!done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(ChannelzTest, CountsStreamsThatAreResetAsFailed) {
  GrpcConnection grpc("127.0.0.1");
  const int64_t before = CallsStarted();
  GrpcConnection::Call first(grpc);
  GrpcConnection::Call second(grpc);
  EXPECT_EQ(CallsStarted() - before, 2);
  auto open = grpc.open();
  ASSERT_EQ(open.size(), 1);
  EXPECT_EQ(open[0].peer.ip, std::string({127, 0, 0, 1}));
  EXPECT_NE(open[0].peer.port, 0);
  EXPECT_EQ(open[0].live(), 2);
  first.Reset();
  WaitUntil([&] { return grpc.open()[0].failed == 1; });
  EXPECT_EQ(grpc.open()[0].live(), 1);
  second.Reset();
  WaitUntil([&] { return grpc.open()[0].live() == 0; });
  EXPECT_EQ(grpc.open()[0].succeeded, 0);
}

class Socket {
 public:
  explicit Socket(int port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(static_cast<uint16_t>(port))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~Socket() { close(fd_); }
  Socket(const Socket&) = delete;
  bool connected() const { return connected_; }

 private:
  const int fd_;
  bool connected_ = false;
};

TEST(ChannelzTest, ListsConnectionsBeyondAPage) {
  constexpr size_t kMany = 501;  // a page has 500
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  GrpcConnection grpc("127.0.0.1");
  std::vector<std::unique_ptr<Socket>> sockets;
  for (size_t i = 0; i < kMany; ++i) {
    sockets.push_back(std::make_unique<Socket>(grpc.port()));
    ASSERT_TRUE(sockets.back()->connected());
  }
  WaitUntil([&] { return grpc.open().size() == kMany; });
}

}  // namespace
}  // namespace tvq
