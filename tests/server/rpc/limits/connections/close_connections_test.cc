#include "server/rpc/limits/connections/close_connections.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/server/rpc/limits/connections/grpc_connection.h"

namespace tvq {
namespace {

class CloseConnectionsTest : public testing::TestWithParam<std::string> {};

TEST_P(CloseConnectionsTest, EndsTheCallsOfTheConnection) {
  GrpcConnection other(GetParam());
  GrpcConnection grpc(GetParam());
  GrpcConnection::Call kept(other);
  GrpcConnection::Call ended(grpc);
  EXPECT_EQ(CloseConnections(grpc.open()), 1);
  EXPECT_EQ(ended.Wait(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(other.open().size(), 1) << "which is another";
  EXPECT_EQ(other.open()[0].live(), 1);
  kept.Reset();
  EXPECT_EQ(kept.Wait(), grpc::StatusCode::CANCELLED);
}

TEST_P(CloseConnectionsTest, LeavesWhatIsAnothers) {
  GrpcConnection grpc(GetParam());
  GrpcConnection::Call call(grpc);
  std::vector<Connection> others = grpc.open();
  others[0].local_port ^= 1;
  EXPECT_EQ(CloseConnections(others), 0);
  others = grpc.open();
  others[0].peer.port ^= 1;
  EXPECT_EQ(CloseConnections(others), 0);
  EXPECT_EQ(grpc.open()[0].live(), 1);
  call.Reset();
  EXPECT_EQ(call.Wait(), grpc::StatusCode::CANCELLED);
}

INSTANTIATE_TEST_SUITE_P(Hosts, CloseConnectionsTest, testing::Values("127.0.0.1", "[::1]"),
                         [](const auto& host) { return host.index == 0 ? "ipv4" : "ipv6"; });

}  // namespace
}  // namespace tvq
