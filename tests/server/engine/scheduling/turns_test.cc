#include "server/engine/scheduling/turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tvq {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

void Add(Turns& turns, uint64_t id, const std::string& owner, int32_t weight = 1,
         int64_t most = 0) {
  turns.Add({.id = id}, owner, weight * Turns::kWeight, most);
}

// A step that gives out `count` turns of cost 1, one to each entry.
std::vector<uint64_t> Step(Turns& turns, size_t count) {
  std::vector<uint64_t> ids;
  turns.BeginStep();
  while (ids.size() < count) {
    const auto id = turns.Next();
    if (!id) break;
    EXPECT_EQ(turns.Next(), id);
    ids.push_back(*id);
    turns.Take(1, Then::kRest);
  }
  return ids;
}

TEST(TurnsTest, NobodyHasATurnWhereNobodyAsks) {
  Turns turns(1, NewRowOrder);
  EXPECT_TRUE(turns.empty());
  EXPECT_THAT(Step(turns, 3), IsEmpty());
}

TEST(TurnsTest, EntriesOfAnOwnerTakeTurnsAcrossSteps) {
  Turns turns(1, NewRowOrder);
  for (uint64_t id = 1; id <= 5; ++id) Add(turns, id, "a");
  EXPECT_THAT(Step(turns, 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(Step(turns, 3), ElementsAre(4, 5, 1));
  Add(turns, 6, "a");
  EXPECT_THAT(Step(turns, 3), ElementsAre(2, 3, 4));
  turns.Remove(5);
  EXPECT_THAT(Step(turns, 3), ElementsAre(1, 6, 2));
  EXPECT_THAT(Step(turns, 9), ElementsAre(3, 4, 1, 6, 2)) << "each once a step";
}

TEST(TurnsTest, OwnersShareAStepByWeight) {
  Turns turns(1, NewRowOrder);
  for (uint64_t id = 1; id <= 100; ++id) Add(turns, id, "many");
  for (uint64_t id = 101; id <= 120; ++id) Add(turns, id, "few");
  const std::vector<uint64_t> step = Step(turns, 16);
  EXPECT_EQ(std::count_if(step.begin(), step.end(), [](uint64_t id) { return id > 100; }), 8);

  Turns weighted(1, NewRowOrder);
  for (uint64_t id = 1; id <= 100; ++id) Add(weighted, id, "a", 3);
  for (uint64_t id = 101; id <= 200; ++id) Add(weighted, id, "b", 1);
  const std::vector<uint64_t> both = Step(weighted, 16);
  EXPECT_EQ(std::count_if(both.begin(), both.end(), [](uint64_t id) { return id > 100; }), 4);
}

TEST(TurnsTest, AWeightMayBeAPartOfOne) {
  Turns turns(1, NewRowOrder);
  for (uint64_t id = 1; id <= 100; ++id) Add(turns, id, "a");
  for (uint64_t id = 101; id <= 200; ++id) Add(turns, id, "b");
  turns.SetWeight("a", Turns::kWeight / 4);
  turns.SetWeight("b", Turns::kWeight / 12);
  turns.SetWeight("c", Turns::kWeight);
  std::map<bool, int> rows;
  for (int step = 0; step < 100; ++step) {
    for (const uint64_t id : Step(turns, 16)) ++rows[id > 100];
  }
  EXPECT_NEAR(rows[true], 400, 2);
  EXPECT_NEAR(rows[false], 1200, 2);
}

TEST(TurnsTest, WhatAnOwnerDoesNotUseIsForTheOthersAndNotSaved) {
  Turns turns(1, NewRowOrder);
  for (uint64_t id = 1; id <= 100; ++id) Add(turns, id, "many", 1);
  Add(turns, 101, "one", 50);
  for (int step = 0; step < 20; ++step) {
    const std::vector<uint64_t> ids = Step(turns, 16);
    EXPECT_EQ(ids.size(), 16u);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), 101u), 1);
  }
  for (uint64_t id = 102; id <= 200; ++id) Add(turns, id, "one", 1);
  std::map<bool, int> rows;
  for (int step = 0; step < 100; ++step) {
    for (const uint64_t id : Step(turns, 16)) ++rows[id > 100];
  }
  EXPECT_NEAR(rows[true], 800, 50) << "no more than the credit of one round of weight 50";
}

TEST(TurnsTest, PrioritiesCostOtherOwnersNothing) {
  Turns turns(1, NewRowOrder);
  for (uint64_t id = 1; id <= 64; ++id)
    turns.Add({.id = id, .priority = -9}, "a", Turns::kWeight, 0);
  turns.Add({.id = 65, .priority = 9}, "b", Turns::kWeight, 0);
  for (int step = 0; step < 10; ++step) {
    const std::vector<uint64_t> ids = Step(turns, 4);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), 65u), 1);
  }
}

TEST(TurnsTest, AnOwnerTakesAtMostItsLimitInAStep) {
  Turns turns(1, NewRowOrder);
  for (uint64_t id = 1; id <= 9; ++id) Add(turns, id, "a", 1, /*most=*/3);
  EXPECT_THAT(Step(turns, 9), ElementsAre(1, 2, 3));
  EXPECT_THAT(Step(turns, 9), ElementsAre(4, 5, 6));
  Add(turns, 10, "b");
  EXPECT_THAT(Step(turns, 9), ElementsAre(7, 10, 8, 9));
}

TEST(TurnsTest, OwnersOfPromptsTakeTurnsChunkByChunk) {
  Turns turns(8, NewPromptOrder);
  turns.Add({.id = 1, .left = 80}, "a", Turns::kWeight, 0);
  turns.Add({.id = 2, .left = 88}, "a", Turns::kWeight, 0);
  turns.Add({.id = 3, .left = 800}, "b", Turns::kWeight, 0);
  std::vector<uint64_t> order;
  turns.BeginStep();
  for (int i = 0; i < 6; ++i) {
    order.push_back(*turns.Next());
    turns.Take(8, Then::kAgain);
  }
  EXPECT_THAT(order, ElementsAre(1, 3, 1, 3, 1, 3)) << "the second prompt of a waits";
}

TEST(TurnsTest, AnEntryMayRotateForSeveralTurnsInAStep) {
  Turns turns(1, NewRowOrder);
  Add(turns, 1, "a");
  Add(turns, 2, "a");
  std::vector<uint64_t> order;
  turns.BeginStep();
  for (int i = 0; i < 4; ++i) {
    order.push_back(*turns.Next());
    turns.Take(1, Then::kAgain);
  }
  EXPECT_THAT(order, ElementsAre(1, 2, 1, 2));
}

TEST(TurnsTest, DebtOfALargeCostIsPaidBack) {
  Turns turns(10, NewRowOrder);
  Add(turns, 1, "large");
  Add(turns, 2, "small");
  std::map<uint64_t, int64_t> taken;
  for (int step = 0; step < 1000; ++step) {
    turns.BeginStep();
    const uint64_t id = *turns.Next();
    const int64_t cost = id == 1 ? 100 : 1;
    taken[id] += cost;
    turns.Take(cost, Then::kAgain);
  }
  EXPECT_NEAR(static_cast<double>(taken[1]), static_cast<double>(taken[2]), 200.0);
}

// Against the definition: long-run shares by weight of owners that always ask.
TEST(TurnsTest, RandomWorldsServeEveryEntryAndShareByWeight) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    Turns turns(1, NewRowOrder);
    const size_t owners = 2 + random() % 4;
    const size_t rows = 1 + random() % 20;
    std::map<uint64_t, size_t> owner_of;
    std::vector<int32_t> weights;
    uint64_t id = 0;
    for (size_t o = 0; o < owners; ++o) {
      weights.push_back(static_cast<int32_t>(1 + random() % 4));
      // Enough that an owner can always use what it is given.
      for (size_t i = 0; i < rows + random() % 50; ++i) {
        Add(turns, ++id, std::string(1, static_cast<char>('a' + o)), weights.back());
        owner_of[id] = o;
      }
    }
    std::map<uint64_t, int> turns_of;
    std::vector<int64_t> taken(owners, 0);
    const int steps = 2000;
    for (int step = 0; step < steps; ++step) {
      const std::vector<uint64_t> ids = Step(turns, rows);
      ASSERT_EQ(ids.size(), rows);
      ASSERT_EQ(std::set<uint64_t>(ids.begin(), ids.end()).size(), rows);
      for (const uint64_t served : ids) {
        ++turns_of[served];
        ++taken[owner_of[served]];
      }
    }
    int64_t all = 0;
    for (const int32_t w : weights) all += w;
    for (size_t o = 0; o < owners; ++o) {
      const double share = static_cast<double>(steps) * static_cast<double>(rows) * weights[o] /
                           static_cast<double>(all);
      ASSERT_NEAR(static_cast<double>(taken[o]), share, static_cast<double>(all)) << seed;
    }
    for (const auto& [a, owner] : owner_of) {
      for (const auto& [b, other] : owner_of) {
        if (owner == other) {
          ASSERT_LE(std::abs(turns_of[a] - turns_of[b]), 1) << seed;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tvq
