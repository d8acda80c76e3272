// What a server remembers of sessions that lie on a tier.
#include <gtest/gtest.h>

#include <memory>

#include "tests/server/sessions/memory_tier.h"
#include "tests/server/sessions/store_harness.h"

namespace tvq {
namespace {

// Else its memory would fill with sessions that are no more.
TEST(SharedMemoryTierTest, ForgetsItsClaimOfWhatAnotherServerTookOverAndDeleted) {
  const auto disk = std::make_shared<MemoryDisk>();
  StoreHarness a, b;
  auto tier = std::make_unique<MemoryTier>(disk, /*shared=*/true);
  const MemoryTier& claims = *tier;
  a.Start(std::move(tier));
  b.Start(std::make_unique<MemoryTier>(disk, /*shared=*/true));
  for (const bool expires : {false, true}) {
    const SessionCall call{.id = a.Create({.ttl = absl::Hours(1), .durability = Durability::kDisk}),
                           .durability = Durability::kDisk};
    EXPECT_TRUE(claims.RemembersClaim(call.id));
    ASSERT_TRUE(b.Append(call, "x").ok());
    ASSERT_TRUE(a.store->Get("", call.id).ok());  // hears of it
    EXPECT_TRUE(claims.RemembersClaim(call.id));
    ASSERT_TRUE(b.store->Delete(call).ok());
    if (expires) a.clock.Advance(absl::Hours(2));
    const auto over = [&] {
      if (expires) {
        a.store->sweeper().DeleteExpired();
        return !claims.RemembersClaim(call.id);
      }
      return a.store->List("", {}, 0, "")->sessions.empty();
    };
    EXPECT_TRUE(Eventually(over));
    EXPECT_FALSE(claims.RemembersClaim(call.id));
  }
}

}  // namespace
}  // namespace tvq
