#include "server/rpc/limits/connections/connection_guard.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

#include "absl/time/clock.h"
#include "base/resident_bytes.h"
#include "tests/server/rpc/limits/connections/grpc_connection.h"

namespace tvq {
namespace {

TEST(PauseAfterLookTest, IsNeverLongHoweverManyConnectionsThereAre) {
  using std::chrono::milliseconds;
  EXPECT_EQ(PauseAfterLook(milliseconds(1)), milliseconds(4));
  EXPECT_EQ(PauseAfterLook(milliseconds(25)), milliseconds(100));
  EXPECT_EQ(PauseAfterLook(milliseconds(500)), milliseconds(100));
}

TEST(ConnectionGuardTest, LooksThoughFewCallsAndNoMemoryCome) {
  GrpcConnection grpc("127.0.0.1");
  GrpcConnection::Call first(grpc);
  first.Reset();
  first.Wait();
  while (grpc.open()[0].live() > 0) absl::SleepFor(absl::Milliseconds(1));
  Admission admission;
  const ConnectionGuard guard({.max_bytes = 10}, &admission, /*key_holders=*/nullptr);
  const auto enter = [&admission] {
    return admission.Enter("a network", Admission::Load::kLight, std::chrono::steady_clock::now());
  };
  while (enter()) {
  }
  // Others enter once it has looked. It always does at first.
  while (!enter()) absl::SleepFor(absl::Milliseconds(1));
  const int64_t before = ResidentBytes();
  GrpcConnection::Call call(grpc);  // of more bytes, whose message is not read
  for (int i = 0; i < 2000 && guard.closed() == 0; ++i) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(guard.closed(), 1);
  EXPECT_LT(ResidentBytes() - before, int64_t{4} << 20) << "more would have been worth a look";
  EXPECT_EQ(call.Wait(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace tvq
