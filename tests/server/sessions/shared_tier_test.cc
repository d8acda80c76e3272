// Two servers with one durable tier.
#include <gtest/gtest.h>

#include "tests/server/sessions/memory_tier.h"
#include "tests/server/sessions/store_harness.h"

namespace tvq {
namespace {

struct Servers {
  Servers() {
    for (StoreHarness* h : {&a, &b}) h->Start(std::make_unique<MemoryTier>(disk, /*shared=*/true));
  }
  std::shared_ptr<MemoryDisk> disk = std::make_shared<MemoryDisk>();
  StoreHarness a;
  StoreHarness b;
};

TEST(SharedTierTest, HandsASessionFromServerToServer) {
  Servers s;
  const SessionCall call{.id = s.a.Create(), .durability = Durability::kDisk};
  std::string text;
  for (int turn = 0; turn < 6; ++turn) {
    StoreHarness& h = turn % 2 == 0 ? s.a : s.b;
    text += static_cast<char>('a' + turn);
    const auto view = h.Append(call, text.substr(text.size() - 1));
    ASSERT_TRUE(view.ok()) << view.status();
    EXPECT_EQ(view->record.version, turn + 2);
    h.ExpectHolds(call, text);
  }
  EXPECT_EQ(s.b.store->Get("", call.id)->record.position, 6);
}

TEST(SharedTierTest, DoesNotShowOtherOwnersSessions) {
  Servers s;
  const std::string id = s.a.Create({.durability = Durability::kDisk}, "ann");
  EXPECT_TRUE(s.b.store->Get("ann", id).ok());
  EXPECT_EQ(s.b.store->Get("bob", id).status().code(), absl::StatusCode::kNotFound);
}

TEST(SharedTierTest, DropsAnUnsavedVersionThatAnotherServerOvertook) {
  Servers s;
  const SessionCall call{.id = s.a.Create()};
  ASSERT_TRUE(s.a.Append(call, "shared").ok());
  ASSERT_TRUE(s.a.store->Save(call).ok());
  ASSERT_TRUE(s.a.Append(call, " stale").ok());
  ASSERT_TRUE(s.b.Append({.id = call.id, .durability = Durability::kDisk}, " newer").ok());
  // Both are version 4, so the client has to be told.
  const absl::Status told = s.a.store->Save(call).status();
  EXPECT_EQ(told.code(), absl::StatusCode::kAborted) << told;
  s.a.ExpectHolds(call, "shared newer");
}

TEST(SharedTierTest, CannotOverwriteWhatAnotherServerClaimed) {
  Servers s;
  const SessionCall call{.id = s.a.Create(), .durability = Durability::kDisk};
  ASSERT_TRUE(s.a.Append(call, "x").ok());
  {
    auto lease = s.a.store->Acquire(call);
    auto next = s.a.Compute((*lease)->Start(), " stale");
    ASSERT_TRUE(s.b.Append(call, " newer").ok());
    EXPECT_EQ((*lease)->Commit(*std::move(next), "").status().code(), absl::StatusCode::kAborted);
  }
  s.a.ExpectHolds(call, "x newer");
}

TEST(SharedTierTest, GoesOnWithoutTheTier) {
  Servers s;
  const SessionCall call{.id = s.a.Create()};
  ASSERT_TRUE(s.a.Append(call, "live").ok());
  ASSERT_TRUE(s.a.store->Save(call).ok());
  s.disk->fail = [](std::string_view) { return absl::UnavailableError("down"); };
  ASSERT_TRUE(s.a.Append(call, " on").ok());
  s.a.ExpectHolds(call, "live on");
  EXPECT_EQ(s.a.store->Save(call).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(s.b.store->Get("", call.id).status().code(), absl::StatusCode::kUnavailable)
      << "it may be there";
  EXPECT_EQ(s.a.store->stats().unsaved, 1);
  s.disk->fail = nullptr;
  ASSERT_TRUE(s.a.store->Save(call).ok());
  s.b.ExpectHolds(call, "live on");
}

TEST(SharedTierTest, DoesNotExpireWhatAnotherServerUses) {
  Servers s;
  const SessionCall call{.id = s.a.Create({.ttl = absl::Hours(1), .durability = Durability::kDisk}),
                         .durability = Durability::kDisk};
  s.b.Start(std::make_unique<MemoryTier>(s.disk, /*shared=*/true));
  s.a.clock.Advance(absl::Minutes(50));
  ASSERT_TRUE(s.a.Append(call, "used").ok());
  s.b.clock.Advance(absl::Minutes(70));
  EXPECT_EQ(s.b.store->DeleteExpired(), 0);
  s.b.clock.Advance(absl::Hours(1));
  EXPECT_EQ(s.b.store->DeleteExpired(), 1);
  EXPECT_TRUE(s.disk->sessions.empty());
}

TEST(SharedTierTest, HandsOverOnlyWhatOthersCannotFind) {
  Servers s;
  const SessionCall stored{.id = s.a.Create({.durability = Durability::kDisk})};
  const SessionCall unsaved{.id = s.a.Create({.durability = Durability::kDisk})};
  ASSERT_TRUE(s.a.Append(unsaved, "here").ok());
  ASSERT_TRUE(s.b.store->Get("", unsaved.id).ok());
  EXPECT_TRUE(s.a.store->shares_storage());
  const auto held = s.a.store->HeldHere();
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].id, unsaved.id);
  EXPECT_TRUE(s.b.store->HeldHere().empty());

  s.a.store->Forget(unsaved.id);
  EXPECT_TRUE(s.a.store->HeldHere().empty());
  EXPECT_EQ(s.a.store->Records().size(), 1u);
  EXPECT_EQ(s.disk->sessions.size(), 2u) << "what is stored stays";
  s.b.ExpectHolds(unsaved, "");
}

TEST(SharedTierTest, HandsOverAllThatLiesOnADiskOfItsOwn) {
  StoreHarness h;
  h.Start(std::make_unique<MemoryTier>(std::make_shared<MemoryDisk>()));
  const std::string stored = h.Create({.durability = Durability::kDisk});
  EXPECT_FALSE(h.store->shares_storage());
  EXPECT_EQ(h.store->HeldHere().size(), 1u);
}

}  // namespace
}  // namespace tvq
