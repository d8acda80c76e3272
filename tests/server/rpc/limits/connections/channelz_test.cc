#include "server/rpc/limits/connections/channelz.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/server/rpc/limits/connections/connect.h"
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
  EXPECT_EQ(open[0].name, absl::StrCat("ipv4:127.0.0.1:", open[0].peer.port));
  EXPECT_EQ(open[0].live(), 2);
  first.Reset();
  WaitUntil([&] { return grpc.open()[0].failed == 1; });
  EXPECT_EQ(grpc.open()[0].live(), 1);
  second.Reset();
  WaitUntil([&] { return grpc.open()[0].live() == 0; });
  EXPECT_EQ(grpc.open()[0].succeeded, 0);
}

TEST(ChannelzTest, AnAnswerIsUseOfAConnectionAsItsCallWas) {
  GrpcConnection grpc("127.0.0.1");
  GrpcConnection::Call call(grpc);
  const absl::Time begun = grpc.open()[0].last_used;
  EXPECT_GT(begun, absl::InfinitePast());
  // gRPC's clock gives the same moment differently by some nanoseconds.
  constexpr absl::Duration kLater = absl::Milliseconds(10);
  absl::SleepFor(2 * kLater);
  grpc.Answer();
  EXPECT_EQ(call.Wait(), grpc::StatusCode::OK);
  WaitUntil([&] { return grpc.open()[0].last_used > begun + kLater; });
  EXPECT_EQ(grpc.open()[0].sent, 1);
}

TEST(ChannelzTest, ListsConnectionsBeyondAPage) {
  constexpr size_t kMany = 501;  // a page has 500
  RaiseDescriptorLimit();
  GrpcConnection grpc("127.0.0.1");
  std::vector<Descriptor> clients;
  for (size_t i = 0; i < kMany; ++i) {
    clients.push_back(ConnectTo(grpc.port()));
    ASSERT_TRUE(clients.back().ok());
  }
  WaitUntil([&] { return grpc.open().size() == kMany; });
}

}  // namespace
}  // namespace tvq
