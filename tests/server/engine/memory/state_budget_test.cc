#include "server/engine/memory/state_budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace tvq {
namespace {

using Share = StateBudget::Share;

TEST(StateBudgetTest, GivesWhatIsLeftAndTakesItBack) {
  StateBudget budget(100);
  EXPECT_EQ(budget.total(), 100);
  std::optional<Share> a = budget.TryReserve(60);
  ASSERT_TRUE(a);
  EXPECT_EQ(a->bytes(), 60);
  EXPECT_FALSE(budget.TryReserve(41));
  std::optional<Share> b = budget.TryReserve(40);
  ASSERT_TRUE(b);
  EXPECT_EQ(budget.used(), 100);
  EXPECT_TRUE(budget.TryReserve(0));
  a.reset();
  EXPECT_EQ(budget.used(), 40);
  b->Reset();
  EXPECT_EQ(b->bytes(), 0);
  EXPECT_EQ(budget.used(), 0);
}

TEST(StateBudgetTest, PartsOfAShareAreGivenBackEachOnItsOwn) {
  StateBudget budget(100);
  Share whole = *budget.TryReserve(90);
  Share part = whole.Split(30);
  EXPECT_EQ(whole.bytes(), 60);
  EXPECT_EQ(part.bytes(), 30);
  EXPECT_EQ(budget.used(), 90);
  whole.Shrink(20);
  EXPECT_EQ(whole.bytes(), 20);
  whole.Shrink(50);  // has less already
  EXPECT_EQ(whole.bytes(), 20);
  EXPECT_EQ(budget.used(), 50);
  part = std::move(whole);  // gives the 30 back
  EXPECT_EQ(part.bytes(), 20);
  EXPECT_EQ(budget.used(), 20);
  const Share moved(std::move(part));
  EXPECT_EQ(moved.bytes(), 20);
  EXPECT_EQ(budget.used(), 20);
}

TEST(StateBudgetTest, TellsOfAShortageAndOfTheFirstBytesAfterIt) {
  StateBudget budget(100);
  std::vector<int64_t> wanted;
  int relieved = 0;
  budget.OnShortage([&](int64_t bytes) { wanted.push_back(bytes); });
  budget.OnRelief([&] { ++relieved; });
  Share a = *budget.TryReserve(50), b = *budget.TryReserve(50);
  a.Shrink(40);
  EXPECT_EQ(relieved, 0);  // nobody waits
  EXPECT_FALSE(budget.shortage());
  budget.ReportShortage(20);
  EXPECT_TRUE(budget.shortage());
  EXPECT_EQ(wanted, std::vector<int64_t>{20});
  a.Shrink(30);
  EXPECT_EQ(relieved, 1);
  EXPECT_FALSE(budget.shortage());
  b.Reset();
  EXPECT_EQ(relieved, 1);
}

TEST(StateBudgetTest, AListenerMayGiveBackWithinTheCall) {
  StateBudget budget(100);
  Share kept = *budget.TryReserve(100);
  bool relieved = false;
  budget.OnShortage([&](int64_t) { kept.Reset(); });
  budget.OnRelief([&] { relieved = true; });
  budget.ReportShortage(10);
  EXPECT_TRUE(relieved);
  EXPECT_TRUE(budget.TryReserve(100));
}

TEST(StateBudgetTest, ManyThreadsNeverHoldMoreThanThereIs) {
  StateBudget budget(1000);
  std::atomic<int64_t> held = 0, relieved = 0;
  std::vector<std::thread> threads;
  budget.OnRelief([&] { ++relieved; });
  threads.reserve(4);
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<Share> mine;
      for (int round = 0; round < 3000; ++round) {
        const auto bytes = static_cast<int64_t>(random() % 300);
        if (std::optional<Share> share = budget.TryReserve(bytes)) {
          EXPECT_LE(held += bytes, 1000);
          mine.push_back(*std::move(share));
        } else {
          budget.ReportShortage(bytes);
        }
        if (!mine.empty() && random() % 2 == 0) {
          Share part = mine.back().Split(mine.back().bytes() / 2);
          held -= part.bytes() + mine.back().bytes();  // before they are free for others
          mine.pop_back();
        }
        if (t == 0 && round % 100 == 0) budget.OnShortage([&](int64_t) { EXPECT_LE(held, 1000); });
      }
      for (const Share& share : mine) held -= share.bytes();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.used(), 0);
  EXPECT_GT(relieved, 0);
  budget.OnShortage({});
}

}  // namespace
}  // namespace tvq
