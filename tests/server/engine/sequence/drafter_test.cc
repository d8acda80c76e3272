#include "server/engine/sequence/drafter.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tvq {
namespace {

// Whose text repeats one token, so that there is always something to draft.
Drafter Repeating() {
  Drafter drafter(100);
  for (int i = 0; i < 10; ++i) drafter.Append(7);
  return drafter;
}

// How many tokens a step with room for `most` drafts, of which `right` are right (all that there
// are, if fewer).
size_t Step(Drafter& drafter, int64_t most, int64_t right) {
  const size_t drafted = drafter.Draft(most).size();
  drafter.Verified(std::min(right, static_cast<int64_t>(drafted)));
  return drafted;
}

TEST(DrafterTest, DraftsGrowWhileTheyAreRight) {
  Drafter drafter = Repeating();
  for (const size_t length : {2, 4, 8, 16, 32, 64, 64}) {
    EXPECT_EQ(Step(drafter, 100, 100), length);
  }
}

TEST(DrafterTest, DraftsAreAsLongAsWhatWasRight) {
  Drafter drafter = Repeating();
  Step(drafter, 100, 2);
  Step(drafter, 100, 3);
  EXPECT_EQ(drafter.Draft(100).size(), 3u);
}

TEST(DrafterTest, GrowByNothingThatWasNotTried) {
  Drafter drafter = Repeating();
  for (int step = 0; step < 4; ++step) EXPECT_EQ(Step(drafter, 1, 1), 1u);  // room for no more
  EXPECT_EQ(Step(drafter, 100, 2), 2u);
  EXPECT_EQ(Step(drafter, 3, 3), 3u);
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
    EXPECT_GT(Step(drafter, 100, 0), 0u);
    for (int step = 0; step < rest; ++step) {
      EXPECT_EQ(drafter.Draft(0).size(), 0u);  // a step without room is none of them
      EXPECT_EQ(Step(drafter, 100, 0), 0u) << rest;
    }
  }
  // Until one is right, of one token.
  EXPECT_EQ(Step(drafter, 100, 1), 1u);
  EXPECT_EQ(Step(drafter, 100, 0), 2u);
  EXPECT_EQ(drafter.Draft(100).size(), 0u);
  EXPECT_EQ(drafter.Draft(100).size(), 1u);
}

}  // namespace
}  // namespace tvq
