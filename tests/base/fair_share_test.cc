#include "base/fair_share.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace tvq {
namespace {

// What owners have that come one after the other, each of which takes all it may, one at a time.
std::vector<int64_t> Greedy(int64_t total, int64_t times) {
  const FairShare share(total, times);
  std::vector<int64_t> owners;
  int64_t all = 0;
  while (share.MayBegin(1, all) && all < total) {
    ++all;
    int64_t mine = 1;
    for (; share.MayHave(mine + 1, all + 1); ++mine) ++all;
    owners.push_back(mine);
  }
  return owners;
}

TEST(FairShareTest, HoweverGreedyOwnersAreASixteenthIsForThoseThatComeLater) {
  std::vector<int64_t> of_256 = {225, 14};
  of_256.resize(2 + 1 + 15, 1);
  EXPECT_EQ(Greedy(256, 15), of_256);
  EXPECT_EQ(Greedy(64, 3), (std::vector<int64_t>{45, 11, 3, 1, 1, 1, 1}));
  // Of less than sixteen none is kept.
  EXPECT_EQ(Greedy(8, 15), (std::vector<int64_t>{7, 1}));
}

TEST(FairShareTest, AFirstRequestMayHaveAllThatNobodyUses) {
  const FairShare share(160, 15);
  EXPECT_TRUE(share.MayBegin(160, 0));
  EXPECT_FALSE(share.MayBegin(150, 1));
  EXPECT_TRUE(share.MayBegin(149, 1));
}

TEST(FairShareTest, OfWhatIsKeptAFirstRequestMayHaveHalf) {
  const FairShare share(160, 15);
  EXPECT_TRUE(share.MayBegin(5, 150));
  EXPECT_FALSE(share.MayBegin(6, 150));
}

TEST(FairShareTest, TheLargestNumbersDoNotOverflow) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const FairShare share(kMost, 15);
  EXPECT_TRUE(share.MayHave(kMost / 4 * 3, kMost / 4 * 3));
  EXPECT_FALSE(share.MayHave(kMost, kMost));
  EXPECT_TRUE(share.MayBegin(kMost, 0));
  EXPECT_FALSE(share.MayBegin(kMost, 1));
}

}  // namespace
}  // namespace tvq
