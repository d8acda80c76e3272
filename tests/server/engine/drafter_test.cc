#include "server/engine/drafter.h"

#include <gtest/gtest.h>

namespace tvq {
namespace {

// Whose text repeats one token, so that there is always something to draft.
Drafter Repeating() {
  Drafter drafter(100);
  for (int i = 0; i < 10; ++i) drafter.Append(7);
  return drafter;
}

TEST(DrafterTest, DraftsGrowWhileTheyAreRight) {
  Drafter drafter = Repeating();
  for (const size_t length : {2, 4, 8, 16, 32, 64, 64}) {
    EXPECT_EQ(drafter.Draft(100).size(), length);
    drafter.Verified(static_cast<int64_t>(length));
  }
}

TEST(DrafterTest, DraftsAreAsLongAsWhatWasRight) {
  Drafter drafter = Repeating();
  drafter.Draft(100);
  drafter.Verified(2);
  drafter.Draft(100);
  drafter.Verified(3);
  EXPECT_EQ(drafter.Draft(100).size(), 3u);
}

TEST(DrafterTest, GrowByNothingThatWasNotTried) {
  Drafter drafter = Repeating();
  for (int step = 0; step < 4; ++step) {
    EXPECT_EQ(drafter.Draft(1).size(), 1u);  // there is room for no more
    drafter.Verified(1);
  }
  EXPECT_EQ(drafter.Draft(100).size(), 2u);
  drafter.Verified(2);
  EXPECT_EQ(drafter.Draft(3).size(), 3u);
  drafter.Verified(3);
  EXPECT_EQ(drafter.Draft(100).size(), 6u);
}

TEST(DrafterTest, AreNeverLongerThanAskedFor) {
  Drafter drafter = Repeating();
  EXPECT_EQ(drafter.Draft(1).size(), 1u);
  EXPECT_EQ(drafter.Draft(0).size(), 0u);
  EXPECT_EQ(drafter.Draft(-1).size(), 0u);
}

TEST(DrafterTest, RestsLongerAndLongerWhileNothingIsRight) {
  Drafter drafter = Repeating();
  for (const int rest : {1, 2, 4, 8, 16, 32, 64, 64}) {
    EXPECT_GT(drafter.Draft(100).size(), 0u);
    drafter.Verified(0);
    for (int step = 0; step < rest; ++step) {
      EXPECT_EQ(drafter.Draft(0).size(), 0u);  // a step without room is none of them
      EXPECT_EQ(drafter.Draft(100).size(), 0u) << rest;
      drafter.Verified(0);
    }
  }
  // Until one is right, of one token.
  EXPECT_EQ(drafter.Draft(100).size(), 1u);
  drafter.Verified(1);
  EXPECT_EQ(drafter.Draft(100).size(), 2u);
  drafter.Verified(0);
  EXPECT_EQ(drafter.Draft(100).size(), 0u);
  EXPECT_EQ(drafter.Draft(100).size(), 1u);
}

}  // namespace
}  // namespace tvq
