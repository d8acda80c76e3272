#include "server/rpc/limits/connections/process_sockets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/rpc/limits/connections/socket_address.h"
#include "tests/server/rpc/limits/connections/connect.h"
#include "tests/server/rpc/limits/connections/grpc_connection.h"

namespace tvq {
namespace {

using testing::Field;
using testing::UnorderedElementsAre;

TEST(ProcessSocketsTest, CountsTheBytesThatHaveCome) {
  GrpcConnection grpc("127.0.0.1");
  GrpcConnection::Call first(grpc);
  std::vector<Connection> open = grpc.open();
  ASSERT_EQ(open.size(), 1);
  EXPECT_EQ(open[0].bytes, 0);
  SocketBytes().CountFor(&open);
  const int64_t before = open[0].bytes;
  EXPECT_GT(before, 24) << "HTTP/2's preface, and a call";
  GrpcConnection::Call second(grpc);
  SocketBytes().CountFor(&open);
  EXPECT_GT(open[0].bytes, before);
  EXPECT_LT(open[0].bytes, 10'000);
  first.Reset();
  second.Reset();
  first.Wait();
  second.Wait();
}

class ServersAddressesTest : public testing::TestWithParam<std::string> {};

// Of two connections from one port of a client, each has its own.
TEST_P(ServersAddressesTest, CountsTheBytesAtEach) {
  const GrpcConnection grpc(GetParam());
  const Descriptor first = ConnectTo(grpc.port());
  const int from = LocalOf(first.get())->port;
  const Descriptor second = ConnectTo(grpc.port(), INADDR_LOOPBACK + 1, INADDR_LOOPBACK, from);
  ASSERT_TRUE(first.ok() && second.ok());
  std::vector<Connection> open;
  while ((open = grpc.open()).size() < 2) absl::SleepFor(absl::Milliseconds(1));
  ASSERT_EQ(send(first.get(), "PRI * ", 6, MSG_NOSIGNAL), 6);
  ASSERT_EQ(send(second.get(), "PRI", 3, MSG_NOSIGNAL), 3);
  SocketBytes().CountFor(&open);
  EXPECT_THAT(open,
              UnorderedElementsAre(Field(&Connection::bytes, 6), Field(&Connection::bytes, 3)));
}

INSTANTIATE_TEST_SUITE_P(Hosts, ServersAddressesTest, testing::Values("0.0.0.0", "[::]"),
                         [](const auto& host) { return host.index == 0 ? "ipv4" : "ipv6"; });

TEST(ProcessSocketsTest, TellsWhatHasEnded) {
  GrpcConnection grpc("127.0.0.1");
  GrpcConnection::Call call(grpc);
  std::vector<Connection> open = grpc.open();
  ASSERT_EQ(open.size(), 1);
  open.push_back(open[0]);
  open[1].peer.port ^= 1;
  SocketBytes().CountFor(&open);
  EXPECT_FALSE(open[0].ended);
  EXPECT_TRUE(open[1].ended);
  call.Reset();
  call.Wait();
}

TEST(ProcessSocketsTest, WhereNoDescriptorIsLeftNothingIsTakenForEnded) {
  GrpcConnection grpc("127.0.0.1");
  GrpcConnection::Call call(grpc);
  std::vector<Connection> open = grpc.open();
  rlimit all{};
  getrlimit(RLIMIT_NOFILE, &all);
  const rlimit none{.rlim_cur = 0, .rlim_max = all.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  SocketBytes().CountFor(&open);
  setrlimit(RLIMIT_NOFILE, &all);
  EXPECT_EQ(open[0].bytes, 0);
  EXPECT_FALSE(open[0].ended);
  call.Reset();
  call.Wait();
}

}  // namespace
}  // namespace tvq
