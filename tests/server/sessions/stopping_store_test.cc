// A store that ends amid its work.
#include <gtest/gtest.h>

#include <atomic>

#include "absl/time/clock.h"
#include "tests/server/sessions/durable_harness.h"

namespace tvq {
namespace {

TEST(StoppingStoreTest, StopsInTheMidstOfEndingSessions) {
  DurableHarness h({.host_bytes = 100'000'000});
  constexpr int kSessions = 200;
  for (int i = 0; i < kSessions; ++i) {
    h.Create({.ttl = absl::Hours(1), .durability = Durability::kDisk});
  }
  std::atomic<int> deletes = 0;
  h.disk->fail = [&](std::string_view operation) {
    if (operation != "Delete") return absl::OkStatus();
    ++deletes;
    absl::SleepFor(absl::Milliseconds(20));
    return absl::OkStatus();
  };
  h.clock.Advance(absl::Hours(1));
  ASSERT_TRUE(Eventually([&] { return deletes > 0; }));
  h.store.reset();
  EXPECT_LT(deletes, kSessions);
}

}  // namespace
}  // namespace tvq
