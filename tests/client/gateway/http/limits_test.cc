#include "client/gateway/http/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace tvq::gateway {
namespace {

using testing::HasSubstr;

constexpr size_t kMiB = size_t{1} << 20;

// How many requests of `bytes` each an address has that has `*mine`, until one is refused.
int Fill(BodyBudget& budget, size_t bytes, Buffered* mine) {
  int count = 0;
  while (budget.Take(bytes, 0, mine)) ++count;
  return count;
}

TEST(BodyBudgetTest, LargeRequestsOfOneAddressLeaveRoomForAnothers) {
  BodyBudget budget(64 * kMiB);
  Buffered one, other;
  EXPECT_EQ(Fill(budget, kMiB, &one), 56);
  EXPECT_THAT(budget.Full(one), HasSubstr("take 58720256 bytes of the gateway's 67108864, 58720256 "
                                          "of them this address's"));
  EXPECT_TRUE(budget.Take(3 * kMiB, 0, &other));
}

TEST(BodyBudgetTest, SmallRequestsOfOneAddressLeaveRoomForAnothers) {
  BodyBudget budget(64 * kMiB);
  Buffered one, other;
  EXPECT_EQ(Fill(budget, 64 << 10, &one), 56 * 16 + 4) << "its share alone";
  EXPECT_EQ(Fill(budget, 64 << 10, &other), 3 * 16 + 8);
  EXPECT_FALSE(budget.Take(1, 0, &one));
}

TEST(BodyBudgetTest, SmallRequestsBesideAShareAreFew) {
  BodyBudget budget(64 * kMiB);
  Buffered one, other, third;
  EXPECT_EQ(Fill(budget, kMiB, &one), 56);
  EXPECT_EQ(Fill(budget, 64 << 10, &one), 2 * 16);
  EXPECT_EQ(one.bytes, 58 * kMiB);
  EXPECT_EQ(one.small, 2 * kMiB);
  EXPECT_EQ(Fill(budget, 64 << 10, &other), 3 * 16);
  EXPECT_EQ(Fill(budget, 64 << 10, &third), 16 + 8);
}

TEST(BodyBudgetTest, WhenOneAddressHasTheMostAnothersSmallRequestsFindRoom) {
  BodyBudget budget(64 * kMiB);
  Buffered one, other;
  ASSERT_TRUE(budget.Take(60 * kMiB, 0, &one));
  EXPECT_EQ(Fill(budget, 64 << 10, &one), 2 * 16);
  EXPECT_EQ(Fill(budget, 64 << 10, &other), 16) << "half of what it found";
  EXPECT_FALSE(budget.Take(1, 0, &one));
}

TEST(BodyBudgetTest, ARequestThatGrowsIsNotSmallAnyMore) {
  BodyBudget budget(64 * kMiB);
  Buffered one;
  ASSERT_TRUE(budget.Take(64 << 10, 0, &one));
  EXPECT_EQ(one.small, 64 << 10);
  ASSERT_TRUE(budget.Take(1, 64 << 10, &one));
  EXPECT_EQ(one.small, 0);
  budget.Give(2, (64 << 10) + 1, &one);
  EXPECT_EQ(one.small, (64 << 10) - 1);
  budget.Give((64 << 10) - 1, (64 << 10) - 1, &one);
  EXPECT_EQ(one.small, 0);
  EXPECT_EQ(one.bytes, 0);
}

TEST(BodyBudgetTest, OneLargeRequestLeavesRoomForSmallOnesOfItsAddress) {
  BodyBudget budget(64 * kMiB);
  Buffered mine;
  size_t taken = 0;
  for (; budget.Take(kMiB, taken, &mine); taken += kMiB) continue;
  EXPECT_EQ(taken, 60 * kMiB) << "the only one may take all but a sixteenth";
  EXPECT_EQ(Fill(budget, kMiB, &mine), 0);
  EXPECT_EQ(Fill(budget, 64 << 10, &mine), 2 * 16);
  budget.Give(60 * kMiB, 60 * kMiB, &mine);
  EXPECT_TRUE(budget.Take(kMiB, 0, &mine));
}

}  // namespace
}  // namespace tvq::gateway
