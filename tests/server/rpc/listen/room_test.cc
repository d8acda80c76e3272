#include "server/rpc/listen/room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "server/rpc/limits/connections/socket_address.h"
#include "server/rpc/listen/listening_sockets.h"
#include "tests/server/rpc/limits/connections/connect.h"
#include "tests/server/rpc/limits/connections/grpc_connection.h"

namespace tvq {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const absl::Time kNow = absl::FromUnixSeconds(1000);

const KeyHolders kNobody{};

std::vector<int64_t> IdsOf(const std::vector<Connection>& connections) {
  std::vector<int64_t> ids;
  ids.reserve(connections.size());
  for (const Connection& connection : connections) ids.push_back(connection.id);
  return ids;
}

TEST(IdlestConnectionsTest, BeginsWithThoseThatNeverCalled) {
  const std::vector<Connection> open = {
      {.id = 1, .started = 1, .succeeded = 1, .last_used = kNow - absl::Seconds(20)},
      {.id = 2, .started = 9, .failed = 9, .last_used = kNow - absl::Seconds(30)},
      {.id = 4},
      {.id = 3},
  };
  EXPECT_THAT(IdsOf(IdlestConnections(open, kNow, /*keys=*/false)), ElementsAre(3, 4, 2, 1));
}

TEST(IdlestConnectionsTest, LeavesThoseWithACallOrAfterOne) {
  const std::vector<Connection> open = {
      {.id = 1, .started = 2, .succeeded = 1, .last_used = kNow - absl::Seconds(900)},
      {.id = 2, .started = 1, .succeeded = 1, .last_used = kNow - absl::Seconds(9)},
  };
  EXPECT_THAT(IdlestConnections(open, kNow, /*keys=*/false), IsEmpty());
}

TEST(IdlestConnectionsTest, WithKeysOnlyCallsOfKeyHoldersCount) {
  constexpr auto kKeyHolder = Standing::kKeyHolder;
  const std::vector<Connection> open = {
      {.id = 1,
       .started = 1,
       .succeeded = 1,
       .last_used = kNow - absl::Seconds(20),
       .standing = kKeyHolder},
      {.id = 2, .started = 1, .last_used = kNow - absl::Seconds(20), .standing = kKeyHolder},
      {.id = 4, .started = 1, .last_used = kNow - absl::Seconds(900)},
      {.id = 3, .started = 9, .succeeded = 8, .last_used = kNow},
      {.id = 5},
  };
  EXPECT_THAT(IdsOf(IdlestConnections(open, kNow, /*keys=*/true)), ElementsAre(3, 4, 5, 1));
}

TEST(RoomTest, KeepsAPartOfTheDescriptors) {
  EXPECT_FALSE(Room(1, false, 1024).IsShort(1024 - 256 - 1));
  EXPECT_TRUE(Room(1, false, 1024).IsShort(1024 - 256));
  EXPECT_FALSE(Room(1, false, 1024).IsFull(1024 - 128 - 1));
  EXPECT_TRUE(Room(1, false, 1024).IsFull(1024 - 128)) << "half of it is not for them";
  EXPECT_FALSE(Room(1, false, 64).IsShort(47)) << "a quarter where there are few";
  EXPECT_TRUE(Room(1, false, 64).IsShort(48));
}

TEST(RoomTest, KeepsItOfSoManyDescriptorsThatTheRestIsForClients) {
  for (const int clients : {1, 40, 100, 101, 102, 767, 768, 769, 4096}) {
    const Room room(1, false, Room::DescriptorsFor(clients));
    EXPECT_FALSE(room.IsShort(clients - 1)) << clients;
    EXPECT_TRUE(room.IsShort(clients)) << clients;
  }
}

void WaitForOpen(const GrpcConnection& grpc, size_t count) {
  while (grpc.open().size() != count) absl::SleepFor(absl::Milliseconds(1));
}

TEST(RoomTest, ClosesTheIdleWhereHandshakesHaveEndedByThemselves) {
  GrpcConnection grpc("127.0.0.1");
  const Descriptor idle = ConnectTo(grpc.port());
  WaitForOpen(grpc, 1);
  Room room(grpc.port(), /*tls=*/true, 1024);
  const auto now = std::chrono::steady_clock::now();
  room.HandedOver({.ip = {127, 0, 0, 1}, .port = 1}, now);
  EXPECT_EQ(room.Make(now), 1);
}

TEST(RoomTest, ClosesTheIdleTooWhereHandshakesAreFew) {
  GrpcConnection grpc("127.0.0.1");
  const Descriptor idle = ConnectTo(grpc.port());
  WaitForOpen(grpc, 1);
  // Not gRPC's, so the handshake does not end.
  const auto listening = ListenOn("127.0.0.2", grpc.port());
  ASSERT_TRUE(listening.ok()) << listening.status();
  const Descriptor client = ConnectTo(grpc.port(), INADDR_LOOPBACK + 1);
  Descriptor server;
  while (!server.ok()) server = Descriptor(accept(listening->sockets[0].get(), nullptr, nullptr));
  Room room(grpc.port(), /*tls=*/true, 1024);
  const auto now = std::chrono::steady_clock::now();
  room.HandedOver(*PeerOf(server.get()), now);
  EXPECT_EQ(room.Make(now), 2);
}

TEST(RoomTest, ClosesOnlyWhatIsIdleAtItsPort) {
  GrpcConnection other("127.0.0.1");
  GrpcConnection grpc("127.0.0.1");
  const Descriptor elsewhere = ConnectTo(other.port());
  WaitForOpen(other, 1);
  GrpcConnection::Call call(grpc);
  Room room(grpc.port(), false, 1024);
  EXPECT_EQ(room.Make(std::chrono::steady_clock::now()), 0);
  const Descriptor idle = ConnectTo(grpc.port());
  WaitForOpen(grpc, 2);
  std::this_thread::sleep_until(room.next());
  EXPECT_EQ(room.Make(std::chrono::steady_clock::now()), 1);
  WaitForOpen(grpc, 1);
  EXPECT_EQ(other.open().size(), 1);
  call.Reset();
  EXPECT_EQ(call.Wait(), grpc::StatusCode::CANCELLED);
}

TEST(RoomTest, OfAServerWithKeysLeavesCallsWithOneAlone) {
  GrpcConnection grpc("127.0.0.1");
  GrpcConnection::Call call(grpc);
  KeyHolders holders;
  holders.Add(grpc.open()[0].name);
  const auto now = std::chrono::steady_clock::now();
  EXPECT_EQ(Room(grpc.port(), false, 1024, Room::kMaxHandshakes, &holders).Make(now), 0);
  EXPECT_EQ(Room(grpc.port(), false, 1024, Room::kMaxHandshakes, &kNobody).Make(now), 1);
  EXPECT_EQ(call.Wait(), grpc::StatusCode::UNAVAILABLE);
}

TEST(CloseStillIdleTest, LeavesWhatHasHadACallSince) {
  GrpcConnection grpc("127.0.0.1");
  GrpcConnection::Call first(grpc);
  grpc.Answer();
  EXPECT_EQ(first.Wait(), grpc::StatusCode::OK);
  while (grpc.open()[0].live() > 0) absl::SleepFor(absl::Milliseconds(1));
  const std::vector<Connection> idle = grpc.open();
  GrpcConnection::Call second(grpc);
  EXPECT_EQ(CloseStillIdle(idle, 1, idle[0].id, nullptr), 0);
  grpc.Answer();
  EXPECT_EQ(second.Wait(), grpc::StatusCode::OK);
  EXPECT_EQ(CloseStillIdle(idle, 1, idle[0].id, nullptr), 0) << "it was used a moment ago";
  EXPECT_EQ(CloseStillIdle(grpc.open(), 1, idle[0].id, nullptr), 1);
}

TEST(CloseStillIdleTest, ClosesAnUnknownClientThatCallsOn) {
  GrpcConnection grpc("127.0.0.1");
  GrpcConnection::Call first(grpc);
  std::vector<Connection> open = grpc.open();
  GrpcConnection::Call second(grpc);
  open[0].started = 0;
  EXPECT_EQ(CloseStillIdle(open, 1, open[0].id, &kNobody), 0) << "the first call may have a key";
  open[0].started = 1;
  EXPECT_EQ(CloseStillIdle(open, 1, open[0].id, &kNobody), 1);
  EXPECT_EQ(first.Wait(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(second.Wait(), grpc::StatusCode::UNAVAILABLE);
}

TEST(CloseStillIdleTest, GoesOnUntilItHasClosedEnough) {
  GrpcConnection grpc("127.0.0.1");
  GrpcConnection::Call call(grpc);
  Connection used = grpc.open()[0];
  used.started = 0;  // when it was chosen
  const Descriptor older = ConnectTo(grpc.port());
  WaitForOpen(grpc, 2);
  const Descriptor newer = ConnectTo(grpc.port());
  WaitForOpen(grpc, 3);
  const std::vector<Connection> open = grpc.open();
  EXPECT_EQ(CloseStillIdle({used, open[2], open[1]}, 1, open[2].id, &kNobody), 1);
  WaitForOpen(grpc, 2);
  EXPECT_THAT(IdsOf(grpc.open()), ElementsAre(used.id, open[1].id)) << "the first that was idle";
  call.Reset();
  EXPECT_EQ(call.Wait(), grpc::StatusCode::CANCELLED);
}

TEST(CloseStillIdleTest, LeavesWhoHasCalledWithAKeySince) {
  GrpcConnection grpc("127.0.0.1");
  GrpcConnection::Call call(grpc);
  const std::vector<Connection> open = grpc.open();
  KeyHolders holders;
  holders.Add(open[0].name);
  EXPECT_EQ(CloseStillIdle(open, 1, open[0].id, &holders), 0);
  EXPECT_EQ(CloseStillIdle(open, 1, open[0].id, &kNobody), 1);
  EXPECT_EQ(call.Wait(), grpc::StatusCode::UNAVAILABLE);
}

TEST(CloseStillIdleTest, LeavesWhoseHandshakeHasEndedSince) {
  GrpcConnection grpc("127.0.0.1");
  const Descriptor before = ConnectTo(grpc.port());
  WaitForOpen(grpc, 1);
  const int64_t newest = grpc.open()[0].id;
  const Descriptor client = ConnectTo(grpc.port());
  const Connection handshake{.peer = *LocalOf(client.get()), .local_port = grpc.port()};
  WaitForOpen(grpc, 2);
  EXPECT_EQ(CloseStillIdle({handshake}, 1, newest, &kNobody), 0);
  EXPECT_EQ(CloseStillIdle({handshake}, 1, newest + 1000, &kNobody), 1) << "gRPC has nothing newer";
}

// Clients in their handshake at a port, and a room that allows eight.
class HandshakesTest : public testing::Test {
 protected:
  struct BothEnds {
    Descriptor client, server;

    bool IsOpen() const {
      char byte = 0;
      return recv(client.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
    }
  };

  BothEnds Connect() const {
    const int listening = listening_->sockets[0].get();
    BothEnds ends{.client = ConnectTo(listening_->port)};
    while (!ends.server.ok()) ends.server = Descriptor(accept(listening, nullptr, nullptr));
    return ends;
  }

  const absl::StatusOr<ListeningSockets> listening_ = ListenOn("127.0.0.1", 0);
  Room room_{listening_->port, /*tls=*/true, 1024, /*max_handshakes=*/8};
  const Room::Time now_ = std::chrono::steady_clock::now();
};

TEST_F(HandshakesTest, ThoseOfClientsThatHaveGoneDoNotCount) {
  const BothEnds slow = Connect();
  room_.HandedOver(*PeerOf(slow.server.get()), now_);
  for (int port = 1; port <= 100; ++port) {
    EXPECT_EQ(room_.HandedOver({.ip = {127, 0, 0, 1}, .port = port}, now_), 0);
  }
  EXPECT_TRUE(slow.IsOpen());
}

TEST_F(HandshakesTest, TheOldestOfTooManyAreClosed) {
  std::vector<BothEnds> all;
  for (int i = 0; i < 9; ++i) {
    all.push_back(Connect());
    EXPECT_EQ(room_.HandedOver(*PeerOf(all.back().server.get()), now_), i < 8 ? 0 : 3) << i;
  }
  for (int i = 0; i < 9; ++i) EXPECT_EQ(all[i].IsOpen(), i >= 3) << i;
}

}  // namespace
}  // namespace tvq
