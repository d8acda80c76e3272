#include "server/rpc/limits/connections/process_sockets.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/server/rpc/limits/connections/grpc_connection.h"

namespace tvq {
namespace {

TEST(ProcessSocketsTest, CountsTheBytesThatHaveCome) {
  GrpcConnection grpc("127.0.0.1");
  GrpcConnection::Call first(grpc);
  std::vector<Connection> open = grpc.open();
  ASSERT_EQ(open.size(), 1);
  EXPECT_EQ(open[0].bytes, 0);
  CountBytes(&open);
  const int64_t before = open[0].bytes;
  EXPECT_GT(before, 24) << "HTTP/2's preface, and a call";
  GrpcConnection::Call second(grpc);
  CountBytes(&open);
  EXPECT_GT(open[0].bytes, before);
  EXPECT_LT(open[0].bytes, 10'000);
  first.Reset();
  second.Reset();
  first.Wait();
  second.Wait();
}

}  // namespace
}  // namespace tvq
