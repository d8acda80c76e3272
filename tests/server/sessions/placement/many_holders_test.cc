// A state that very many sessions are at: what one of them does takes as long as if it were alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/sessions/placement/tiers.h"
#include "tests/server/sessions/durable_harness.h"
#include "tests/server/sessions/memory_tier.h"
#include "tests/server/sessions/store_harness.h"

namespace tvq {
namespace {

// For each to look at all others would take minutes.
TEST(ManyHoldersTest, ComeAndGoEachInAFewSteps) {
  constexpr int kHolders = 100'000;
  StoreHarness h;
  const auto tiers = Tiers::Create({.engine = h.engine, .host_bytes = 1'000'000});
  auto next = h.Compute(std::nullopt, "text");
  ASSERT_TRUE(next.ok()) << next.status();
  auto checkpoint = tiers->Add(0, *std::move(next));
  const auto place = [](int i) { return StoredPlace{"session " + std::to_string(i), 1}; };
  for (int i = 0; i < kHolders; ++i) tiers->AddHolder(*checkpoint, place(i));
  for (int i = 0; i < kHolders; ++i) tiers->SetStored(*checkpoint, place(i));
  for (int i = 0; i < kHolders; ++i) ASSERT_TRUE(tiers->IsStored(*checkpoint, place(i))) << i;
  for (int i = kHolders - 1; i >= 0; --i) tiers->RemoveHolder(*checkpoint, place(i));
  EXPECT_FALSE(tiers->IsStored(*checkpoint, place(0)));
  tiers->Stop();
}

// Makes a state of the harness leave memory, whose holders all have a copy.
bool Park(StoreHarness& h, const std::function<bool()>& parked) {
  StateBudget& budget = h.engine->budget();
  return Eventually([&] {
    budget.ReportShortage(budget.total());
    return parked();
  });
}

// A state with very many holders leaves memory as fast as another: who they are is told in pieces.
TEST(ManyHoldersTest, AreToldInPiecesWhenTheirStateLeavesMemory) {
  constexpr int kHolders = 2500;
  StoreHarness h;
  MemoryTier durable(std::make_shared<MemoryDisk>());
  const auto tiers =
      Tiers::Create({.engine = h.engine, .host_bytes = 1'000'000, .durable = &durable});
  std::vector<std::shared_ptr<Checkpoint>> parked;
  std::set<std::string> expected;
  for (const std::string of : {"a", "b", "c"}) {
    auto next = h.Compute(std::nullopt, "text");
    ASSERT_TRUE(next.ok()) << next.status();
    parked.push_back(tiers->Add(0, *std::move(next)));
    for (int i = 0; i < kHolders; ++i) {
      const std::string id = of + std::to_string(i);
      for (const int64_t version : {1, 2}) {  // of a session and of its mark
        tiers->AddHolder(*parked.back(), {id, version});
        tiers->SetStored(*parked.back(), {id, version});
      }
      if (of != "c") expected.insert(id);
    }
  }
  const auto all_parked = [&] {
    return std::ranges::all_of(
        parked, [&](const auto& one) { return tiers->Where(*one) == Tier::kDurable; });
  };
  ASSERT_TRUE(Park(h, all_parked));
  parked.pop_back();  // its sessions were deleted meanwhile
  std::vector<std::string> told;
  while (true) {
    const std::vector<std::string> ids = tiers->TakeParked(1000);
    if (ids.empty()) break;
    EXPECT_LE(ids.size(), 1000u);
    told.insert(told.end(), ids.begin(), ids.end());
  }
  EXPECT_EQ(told.size(), expected.size()) << "each once";
  EXPECT_EQ(std::set<std::string>(told.begin(), told.end()), expected);
  tiers->Stop();
}

TEST(ManyHoldersTest, AreNotAllAskedForACopy) {
  StoreHarness h;
  const auto disk = std::make_shared<MemoryDisk>();  // with nothing on it
  MemoryTier durable(disk);
  const auto tiers =
      Tiers::Create({.engine = h.engine, .host_bytes = 1'000'000, .durable = &durable});
  auto next = h.Compute(std::nullopt, "text");
  ASSERT_TRUE(next.ok()) << next.status();
  auto checkpoint = tiers->Add(0, *std::move(next));
  for (int i = 0; i < 100; ++i) {
    tiers->AddHolder(*checkpoint, {std::to_string(i), 1});
    tiers->SetStored(*checkpoint, {std::to_string(i), 1});
  }
  ASSERT_TRUE(Park(h, [&] { return tiers->Where(*checkpoint) == Tier::kDurable; }));
  EXPECT_TRUE(absl::IsDataLoss(tiers->Read(checkpoint).status()));
  EXPECT_EQ(disk->gets, 64);
  tiers->Stop();
}

TEST(ManyHoldersTest, ReadAnothersCopyWhereOneIsDamaged) {
  DurableHarness h;
  const SessionCall call{.id = h.Create(), .durability = Durability::kDisk};
  ASSERT_TRUE(h.Append(call, "text").ok());
  const auto forks = h.store->Fork(call, {.count = 3});
  ASSERT_TRUE(forks.ok()) << forks.status();
  ASSERT_TRUE(Park(h, [&] { return h.store->stats().durable.sessions == 4; }));
  std::vector<std::string> ids{call.id};
  for (const SessionView& fork : *forks) ids.push_back(fork.record.id);
  std::ranges::sort(ids);
  {
    const std::lock_guard lock(h.disk->mutex);
    for (const size_t damaged : {0, 1, 3}) h.disk->sessions[ids[damaged]].versions.clear();
  }
  h.ExpectHolds({.id = ids[2]}, "text");
}

}  // namespace
}  // namespace tvq
