#include "server/engine/scheduling/occupancy.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

constexpr Need kTotal{.sequences = 1600, .state_bytes = 16000, .prompt_tokens = 160};

// An occupancy, and the ids of what runs.
class OccupancyBench {
 public:
  explicit OccupancyBench(const Need& total = kTotal) : occupancy(total) {}

  bool HasRoom(const Need& need) const { return occupancy.HasRoom(need, occupancy.taken()); }
  bool MayTake(const std::string& owner, const Need& need, const OwnerLimits& limits = {}) const {
    return occupancy.MayTake(owner, limits, need, occupancy.TakenWith(owner));
  }
  uint64_t Add(const std::string& owner, const Need& need) {
    occupancy.Add(++last_, owner, need, {});
    return last_;
  }
  // How many requests like this the owner may have, one after the other.
  int64_t Most(const std::string& owner, const Need& need, const OwnerLimits& limits = {}) {
    int64_t count = 0;
    for (; HasRoom(need) && MayTake(owner, need, limits); ++count) Add(owner, need);
    return count;
  }

  Occupancy occupancy;

 private:
  uint64_t last_ = 0;
};

TEST(OccupancyTest, WithoutNamesAllMayBeTaken) {
  OccupancyBench bench;
  EXPECT_EQ(bench.Most("", {.sequences = 1, .state_bytes = 10}), 1600);
  EXPECT_FALSE(bench.HasRoom({.sequences = 1}));
}

TEST(OccupancyTest, RoomIsOfEachKind) {
  OccupancyBench bench;
  bench.Add("", {.sequences = 1, .state_bytes = 15'000, .prompt_tokens = 100});
  EXPECT_TRUE(bench.HasRoom({.sequences = 1599, .state_bytes = 1000, .prompt_tokens = 60}));
  EXPECT_FALSE(bench.HasRoom({.sequences = 1600}));
  EXPECT_FALSE(bench.HasRoom({.state_bytes = 1001}));
  EXPECT_FALSE(bench.HasRoom({.prompt_tokens = 61}));
}

// A sixteenth is for owners that take nothing, and of the rest an owner leaves one too.
TEST(OccupancyTest, OwnersThatTakeAllTheyCanLeaveRoomOfEachKindForOthers) {
  const Need one[] = {
      {.sequences = 1}, {.sequences = 1, .state_bytes = 100}, {.sequences = 1, .prompt_tokens = 1}};
  const int64_t most[] = {1406, 140, 140};  // of 1600, 160, 160
  const int64_t more_owners[] = {100, 9, 8};
  for (size_t i = 0; i < 3; ++i) {
    OccupancyBench bench;
    EXPECT_EQ(bench.Most("a", one[i]), most[i]) << i;
    for (int owner = 0; owner < 3; ++owner) bench.Most(absl::StrCat("b", owner), one[i]);
    for (int64_t owner = 0; owner < more_owners[i]; ++owner) {
      EXPECT_EQ(bench.Most(absl::StrCat("c", owner), one[i]), 1) << i << " " << owner;
    }
  }
}

TEST(OccupancyTest, ALargeFirstRequestLeavesSomeForOthers) {
  OccupancyBench bench;
  bench.Add("",
            {.sequences = 1500, .state_bytes = 10, .prompt_tokens = 1});  // all but what is kept
  EXPECT_FALSE(bench.MayTake("a", {.sequences = 51, .state_bytes = 51}));
  EXPECT_TRUE(bench.MayTake("a", {.sequences = 50, .state_bytes = 50}));
  bench.Add("", {.sequences = 99, .state_bytes = 10});
  EXPECT_FALSE(bench.MayTake("a", {.sequences = 1, .state_bytes = 10, .prompt_tokens = 150}));
  EXPECT_TRUE(bench.MayTake("a", {.sequences = 1, .state_bytes = 15'980, .prompt_tokens = 149}));
}

TEST(OccupancyTest, AnOwnerOfWhichOnlyAStateIsLeftTakesSomething) {
  OccupancyBench bench({.sequences = 16, .state_bytes = 20, .prompt_tokens = 160});
  const Need one{.sequences = 1, .state_bytes = 10, .prompt_tokens = 1};
  const uint64_t id = bench.Add("a", one);
  bench.occupancy.Release(id, {.sequences = 1, .prompt_tokens = 1});
  EXPECT_FALSE(bench.MayTake("a", one));
  EXPECT_TRUE(bench.MayTake("b", one));
  bench.occupancy.Release(id, {.state_bytes = 10});
  EXPECT_TRUE(bench.MayTake("a", one));
}

TEST(OccupancyTest, AnOwnerThatTakesNothingMayTakeAll) {
  OccupancyBench bench;
  EXPECT_TRUE(bench.MayTake("a", kTotal));
  const Need small{.sequences = 1, .state_bytes = 1};
  const uint64_t id = bench.Add("a", small);
  EXPECT_FALSE(bench.MayTake("a", {.sequences = 1, .state_bytes = 14'100}));
  bench.occupancy.Release(id, small);
  EXPECT_TRUE(bench.MayTake("a", kTotal));
}

TEST(OccupancyTest, ALimitOfSequencesHoldsForNamedAndNameless) {
  for (const std::string owner : {"", "a"}) {
    OccupancyBench bench;
    EXPECT_EQ(bench.Most(owner, {.sequences = 2}, {.max_num_admitted_seqs = 9}), 4);
    EXPECT_TRUE(bench.MayTake(owner, {.sequences = 1}, {.max_num_admitted_seqs = 9}));
  }
}

TEST(OccupancyTest, ThePartsOfOthersAreEqualAtMost) {
  OccupancyBench bench;
  EXPECT_EQ(bench.occupancy.FairlyTakenWith("a").all, Need{});
  bench.Add("a", {.sequences = 100, .state_bytes = 9000, .prompt_tokens = 1});
  EXPECT_EQ(bench.occupancy.FairlyTakenWith("a").all, bench.occupancy.taken());
  bench.Add("b", {.sequences = 1000, .state_bytes = 7000, .prompt_tokens = 159});
  const Occupancy::Taken taken = bench.occupancy.FairlyTakenWith("a");
  EXPECT_EQ(taken.mine, bench.occupancy.TakenWith("a").mine);
  EXPECT_EQ(taken.all, (Need{.sequences = 850, .state_bytes = 16'000, .prompt_tokens = 76}));
}

TEST(OccupancyTest, TheLargestNumbersDoNotOverflow) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  OccupancyBench bench({.sequences = 10, .state_bytes = kMost, .prompt_tokens = kMost});
  bench.Add("a", {.sequences = 1, .state_bytes = kMost / 2});
  EXPECT_TRUE(bench.MayTake("a", {.sequences = 1, .state_bytes = kMost / 4}));
  EXPECT_FALSE(bench.MayTake("a", {.sequences = 1, .state_bytes = kMost / 2}));
}

TEST(OccupancyTest, KnowsWhatRunsInTheOrderOfItsStart) {
  OccupancyBench bench;
  const uint64_t first = bench.Add("a", {.sequences = 2, .state_bytes = 20});
  bench.Add("b", {.sequences = 1, .state_bytes = 10});
  bench.occupancy.Release(first, {.sequences = 1, .state_bytes = 10});
  EXPECT_EQ(bench.occupancy.running().front().need, (Need{.sequences = 1, .state_bytes = 10}));
  bench.occupancy.Release(first, {.sequences = 1, .state_bytes = 10});
  ASSERT_EQ(bench.occupancy.running().size(), 1u);
  EXPECT_EQ(*bench.occupancy.running().front().owner, "b");
  EXPECT_EQ(bench.occupancy.running().front().number, 1u);
  EXPECT_EQ(bench.occupancy.started(), 2u);
}

}  // namespace
}  // namespace tvq
