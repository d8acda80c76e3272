#include "server/engine/scheduling/occupancy.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace tvq {
namespace {

constexpr Need kTotal{.sequences = 1600, .state_bytes = 16000, .prompt_tokens = 160};

// How many requests like this the owner may have, one after the other.
int64_t Most(Occupancy& occupancy, const std::string& owner, const Need& need,
             const OwnerLimits& limits = {}) {
  int64_t count = 0;
  while (occupancy.HasRoom(need) && occupancy.MayTake(owner, limits, need) &&
         occupancy.taken().state_bytes + need.state_bytes <= kTotal.state_bytes) {
    occupancy.Add(owner, need);
    ++count;
  }
  return count;
}

TEST(OccupancyTest, WithoutNamesAllMayBeTaken) {
  Occupancy occupancy(kTotal);
  EXPECT_EQ(Most(occupancy, "", {.sequences = 1, .state_bytes = 10}), 1600);
  EXPECT_FALSE(occupancy.HasRoom({.sequences = 1}));
}

TEST(OccupancyTest, AnOwnerAloneLeavesASixteenthOfEachKind) {
  const Need one[] = {
      {.sequences = 1}, {.sequences = 1, .state_bytes = 160}, {.sequences = 1, .prompt_tokens = 1}};
  const int64_t most[] = {1500, 93, 150};  // 93 of 160 bytes: at most 15000
  for (size_t i = 0; i < 3; ++i) {
    Occupancy occupancy(kTotal);
    EXPECT_EQ(Most(occupancy, "a", one[i]), most[i]) << i;
    EXPECT_GT(Most(occupancy, "b", one[i]), 0) << i;
    EXPECT_GT(Most(occupancy, "c", one[i]), 0) << i;
  }
}

TEST(OccupancyTest, AnOwnerThatTakesNothingMayTakeAll) {
  Occupancy occupancy(kTotal);
  EXPECT_TRUE(occupancy.MayTake("a", {}, kTotal));
  occupancy.Add("a", {.sequences = 1, .state_bytes = 1});
  EXPECT_TRUE(occupancy.TakesSomething("a"));
  EXPECT_FALSE(occupancy.MayTake("a", {}, {.sequences = 1, .state_bytes = 15900}));
  occupancy.Release("a", {.sequences = 1, .state_bytes = 1});
  EXPECT_FALSE(occupancy.TakesSomething("a"));
  EXPECT_TRUE(occupancy.MayTake("a", {}, kTotal));
}

TEST(OccupancyTest, ALimitOfSequencesHoldsForNamedAndNameless) {
  for (const std::string owner : {"", "a"}) {
    Occupancy occupancy(kTotal);
    EXPECT_EQ(Most(occupancy, owner, {.sequences = 2}, {.max_num_admitted_seqs = 9}), 4);
    EXPECT_TRUE(occupancy.MayTake(owner, {.max_num_admitted_seqs = 9}, {.sequences = 1}));
  }
}

TEST(OccupancyTest, TheLargestNumbersDoNotOverflow) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  Occupancy occupancy({.sequences = 10, .state_bytes = kMost, .prompt_tokens = kMost});
  occupancy.Add("a", {.sequences = 1, .state_bytes = kMost / 2});
  EXPECT_TRUE(occupancy.MayTake("a", {}, {.sequences = 1, .state_bytes = kMost / 4}));
  EXPECT_FALSE(occupancy.MayTake("a", {}, {.sequences = 1, .state_bytes = kMost / 2}));
}

}  // namespace
}  // namespace tvq
