#include "server/engine/scheduling/fair_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace tvq {
namespace {

using ::testing::ElementsAre;

using Visit = FairQueue::Visit;

std::optional<uint64_t> First(const FairQueue& queue) {
  return queue.Find([](uint64_t) { return Visit::kTake; });
}

// Takes up to `count` turns.
std::vector<uint64_t> NextTurns(FairQueue& queue, size_t count = 1000) {
  std::vector<uint64_t> ids;
  while (ids.size() < count && First(queue)) {
    ids.push_back(*First(queue));
    queue.Pop(ids.back());
  }
  return ids;
}

TEST(FairQueueTest, OneOwnersRequestsGoByPriorityThenInOrder) {
  FairQueue queue;
  EXPECT_EQ(First(queue), std::nullopt);
  queue.Push(1, "a", 0, 10);
  queue.Push(2, "a", 5, 10);
  queue.Push(3, "a", 0, 10);
  queue.Push(4, "a", -1, 10);
  EXPECT_EQ(queue.size(), 4);
  EXPECT_THAT(NextTurns(queue), ElementsAre(4, 1, 3, 2));
  EXPECT_EQ(queue.size(), 0);
}

TEST(FairQueueTest, EveryOtherTurnIsTheEarliests) {
  FairQueue queue;
  queue.Push(1, "a", 9, 10);
  queue.Push(2, "a", 5, 10);
  for (uint64_t id = 3; id <= 6; ++id) queue.Push(id, "a", -1, 10);
  EXPECT_THAT(NextTurns(queue), ElementsAre(3, 1, 4, 2, 5, 6));
}

TEST(FairQueueTest, AFlowOfRequestsThatGoFirstStarvesNone) {
  FairQueue queue;
  queue.Push(1, "a", 0, 10);
  for (uint64_t id = 2; id <= 1000; ++id) {
    queue.Push(id, "a", -1, 10);
    if (NextTurns(queue, 1).front() != 1) continue;
    EXPECT_LE(id, 3u);
    return;
  }
  FAIL() << "it waits for ever";
}

TEST(FairQueueTest, OwnersTakeTurnsWhateverTheirPriorities) {
  FairQueue queue;
  for (uint64_t id = 1; id <= 4; ++id) queue.Push(id, "a", -9, 10);
  for (uint64_t id = 5; id <= 8; ++id) queue.Push(id, "b", 9, 10);
  EXPECT_THAT(NextTurns(queue), ElementsAre(1, 5, 2, 6, 3, 7, 4, 8));
}

TEST(FairQueueTest, TurnsGoByTokens) {
  FairQueue queue;
  for (uint64_t id = 1; id <= 3; ++id) queue.Push(id, "long", 0, 30);
  for (uint64_t id = 11; id <= 19; ++id) queue.Push(id, "short", 0, 10);
  EXPECT_THAT(NextTurns(queue), ElementsAre(1, 11, 12, 13, 2, 14, 15, 16, 3, 17, 18, 19));
}

TEST(FairQueueTest, WhatIsGeneratedCountsToo) {
  FairQueue queue;
  for (uint64_t id = 1; id <= 4; ++id) queue.Push(id, "a", 0, 1);
  for (uint64_t id = 5; id <= 8; ++id) queue.Push(id, "b", 0, 1);
  EXPECT_THAT(NextTurns(queue, 2), ElementsAre(1, 5));
  queue.Charge("a", 2);  // 1 generates
  EXPECT_THAT(NextTurns(queue), ElementsAre(6, 7, 2, 8, 3, 4));
}

TEST(FairQueueTest, AHeavyOwnerDelaysAnothersSingleRequestByOneTurn) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    FairQueue queue;
    uint64_t id = 0;
    for (int i = 0; i < 1000; ++i) queue.Push(++id, "heavy", 0, 1 + random() % 5000);
    for (int i = 0, n = static_cast<int>(random() % 900); i < n; ++i) {
      if (random() % 2 == 0) queue.Charge("heavy", random() % 5000);
      queue.Pop(*First(queue));
    }
    queue.Push(++id, "light", 100, 5000);
    const std::vector<uint64_t> next = NextTurns(queue, 2);
    EXPECT_TRUE(next[0] == id || next[1] == id);
  }
}

TEST(FairQueueTest, IdleTimeEarnsNoCredit) {
  FairQueue queue;
  for (uint64_t id = 1; id <= 100; ++id) queue.Push(id, "a", 0, 10);
  NextTurns(queue, 50);
  for (uint64_t id = 101; id <= 103; ++id) queue.Push(id, "late", 0, 10);
  // Level from now on, not ahead by the fifty turns that it did not want.
  EXPECT_THAT(NextTurns(queue, 6), ElementsAre(51, 101, 52, 102, 53, 103));
}

TEST(FairQueueTest, WhoWasServedWhileOthersWaitedStaysBehind) {
  FairQueue queue;
  queue.Push(1, "greedy", 0, 1);
  for (uint64_t id = 2; id <= 5; ++id) queue.Push(id, "patient", 0, 10);
  EXPECT_THAT(NextTurns(queue, 1), ElementsAre(1));
  queue.Charge("greedy", 25);  // has nothing waiting now
  queue.Push(6, "greedy", 0, 1);
  EXPECT_THAT(NextTurns(queue), ElementsAre(2, 3, 4, 6, 5));
}

TEST(FairQueueTest, ShowsEachOwnersRequestsInTheOrderOfTurns) {
  FairQueue queue;
  queue.Push(1, "a", 0, 1);
  queue.Push(2, "b", 0, 1);
  queue.Push(3, "a", 0, 1);
  queue.Push(4, "a", -1, 1);
  queue.Push(5, "b", 0, 1);
  const auto seen = [&](const std::map<uint64_t, Visit>& answers) {
    std::vector<uint64_t> ids;
    const std::optional<uint64_t> found = queue.Find([&](uint64_t id) {
      ids.push_back(id);
      const auto it = answers.find(id);
      return it == answers.end() ? Visit::kNext : it->second;
    });
    EXPECT_EQ(found.has_value(), !answers.empty() && answers.rbegin()->second == Visit::kTake);
    return ids;
  };
  EXPECT_THAT(seen({}), ElementsAre(4, 1, 3, 2, 5));
  EXPECT_THAT(seen({{3, Visit::kTake}}), ElementsAre(4, 1, 3));
  EXPECT_THAT(seen({{1, Visit::kNextOwner}}), ElementsAre(4, 1, 2, 5));
  EXPECT_THAT(seen({{2, Visit::kEnd}}), ElementsAre(4, 1, 3, 2));
}

TEST(FairQueueTest, WhatIsRemovedWaitsNoLonger) {
  FairQueue queue;
  queue.Push(1, "a", 0, 1);
  queue.Push(2, "a", 0, 1);
  EXPECT_TRUE(queue.Remove(1));
  EXPECT_FALSE(queue.Remove(1));
  EXPECT_THAT(NextTurns(queue), ElementsAre(2));
}

TEST(FairQueueTest, NamesThatComeOnceTakeNoMemoryForEver) {
  FairQueue queue;
  queue.Push(1, "waits", 0, 1);
  queue.Charge("known", 10);
  for (size_t i = 0; i < FairQueue::kMostIdle; ++i) {
    EXPECT_LE(queue.remembered(), FairQueue::kMostIdle + 1);
    queue.Charge(std::to_string(i), 1);
  }
  queue.Push(2, "known", 0, 1);
  EXPECT_LE(queue.remembered(), 3u);
  EXPECT_THAT(NextTurns(queue), ElementsAre(1, 2));
}

// Against the definition, by looking at all.
TEST(FairQueueTest, AgreesWithTheDefinitionOnRandomWorlds) {
  struct Item {
    uint64_t id;
    std::string owner;
    int32_t priority;
    int64_t tokens;
  };
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    FairQueue queue;
    std::vector<Item> waiting;
    std::map<std::string, int64_t> served;
    std::map<std::string, int> turns;
    uint64_t id = 0;
    const auto waits = [&](const std::string& owner) {
      return std::any_of(waiting.begin(), waiting.end(),
                         [&](const Item& i) { return i.owner == owner; });
    };
    for (int step = 0; step < 400; ++step) {
      const std::string owner(1, static_cast<char>('a' + random() % 5));
      const auto tokens = static_cast<int64_t>(1 + random() % 50);
      const uint32_t what = random() % 10;
      if (waiting.empty()) served.clear();
      if (waiting.empty()) turns.clear();
      if (what < 4) {
        if (!waiting.empty() && !waits(owner)) {
          int64_t least = INT64_MAX;
          for (const Item& i : waiting) least = std::min(least, served[i.owner]);
          served[owner] = std::max(served[owner], least);
        }
        waiting.push_back({++id, owner, static_cast<int32_t>(random() % 3), tokens});
        queue.Push(id, owner, waiting.back().priority, tokens);
      } else if (what == 4 && !waiting.empty()) {
        const size_t i = random() % waiting.size();
        EXPECT_TRUE(queue.Remove(waiting[i].id));
        waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(i));
      } else if (what == 5) {
        queue.Charge(owner, tokens);
        if (!waiting.empty()) served[owner] += tokens;
      } else if (const auto head = First(queue)) {
        const auto it = std::find_if(waiting.begin(), waiting.end(),
                                     [&](const Item& i) { return i.id == *head; });
        ASSERT_NE(it, waiting.end());
        for (const Item& i : waiting) {
          ASSERT_LE(served[it->owner], served[i.owner]);
          if (i.owner != it->owner) continue;
          if (turns[it->owner] % 2 == 0) {
            ASSERT_LE(std::pair(it->priority, it->id), std::pair(i.priority, i.id));
          } else {
            ASSERT_LE(it->id, i.id);
          }
        }
        ++turns[it->owner];
        served[it->owner] += it->tokens;
        waiting.erase(it);
        queue.Pop(*head);
      }
      ASSERT_EQ(queue.size(), static_cast<int64_t>(waiting.size()));
    }
  }
}

}  // namespace
}  // namespace tvq
