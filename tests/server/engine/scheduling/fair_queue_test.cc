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

using ::testing::Contains;
using ::testing::ElementsAre;

using Visit = FairQueue::Visit;

std::optional<uint64_t> First(FairQueue& queue) {
  return queue.Find([](uint64_t) { return Visit::kTake; });
}

// The first but for one request, to which the visit answers `answer`.
std::optional<uint64_t> FirstBut(FairQueue& queue, uint64_t but, Visit answer) {
  return queue.Find([&](uint64_t id) { return id == but ? answer : Visit::kTake; });
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

TEST(FairQueueTest, AnothersLargeRequestDoesNotDelayANewOwner) {
  FairQueue queue;
  for (uint64_t id = 1; id <= 2; ++id) queue.Push(id, "large", 0, 1'000'000);
  for (uint64_t id = 11; id <= 100; ++id) queue.Push(id, "small", 0, 100);
  EXPECT_THAT(NextTurns(queue, 2), ElementsAre(1, 11));
  queue.Push(101, "new", 0, 10);
  queue.Push(102, "newer", 0, 300);
  EXPECT_THAT(NextTurns(queue, 6), ElementsAre(12, 101, 13, 14, 102, 15));
  queue.Charge("new", 1);
  queue.Push(103, "new", 0, 10);
  EXPECT_THAT(NextTurns(queue, 2), ElementsAre(16, 103));
}

TEST(FairQueueTest, CancelledRequestsDoNotDelayANewOwner) {
  FairQueue queue;
  uint64_t id = 0;
  for (int i = 0; i < 1000; ++i) queue.Push(++id, std::to_string(i % 10), 0, 100);
  const uint64_t last_small = id;
  for (int i = 0; i < 3; ++i) queue.Push(++id, "cancels", 0, 100'000);
  for (int i = 0; i < 5; ++i) {
    while (*First(queue) <= last_small) NextTurns(queue, 1);
    queue.GiveBack("cancels", queue.Pop(*First(queue)), 100'000);
    queue.Push(++id, "cancels", 0, 100'000);
  }
  queue.Push(++id, "new", 0, 10);
  EXPECT_THAT(NextTurns(queue, 12), Contains(id));
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

// One request waits all the time and cannot start, so that somebody always waits.
TEST(FairQueueTest, WhoWorkedAloneOwesNothingThoughOthersCouldNotStart) {
  for (const Visit answer : {Visit::kCannot, Visit::kNextOwner}) {
    FairQueue queue;
    queue.Push(1, "cannot", 0, 10);
    EXPECT_EQ(FirstBut(queue, 1, answer), std::nullopt);
    queue.Push(2, "worked", 0, 2'000'000);
    EXPECT_EQ(FirstBut(queue, 1, answer), 2);
    queue.Pop(2);
    queue.Charge("worked", 1'000'000);
    for (uint64_t id = 11; id <= 13; ++id) {
      queue.Push(id, std::to_string(id), 0, 10);
      queue.Push(id + 10, std::to_string(id), 0, 10);
    }
    queue.Push(3, "worked", 0, 3);
    std::vector<uint64_t> ids;
    while (const auto next = FirstBut(queue, 1, answer)) {
      ids.push_back(*next);
      queue.Pop(*next);
    }
    EXPECT_THAT(ids, ElementsAre(11, 12, 13, 3, 21, 22, 23));
  }
}

TEST(FairQueueTest, WhatCouldNotStartKeepsItsPlaceButEarnsNoCredit) {
  FairQueue queue;
  for (uint64_t id = 1; id <= 3; ++id) queue.Push(id, "limited", 0, 10);
  for (uint64_t id = 11; id <= 20; ++id) queue.Push(id, "other", 0, 10);
  for (uint64_t id = 11; id <= 17; ++id) {
    EXPECT_EQ(FirstBut(queue, 1, Visit::kNextOwner), id);
    queue.Pop(id);
  }
  EXPECT_THAT(NextTurns(queue), ElementsAre(1, 18, 2, 19, 3, 20));
}

TEST(FairQueueTest, WhatWasNotComputedIsGivenBack) {
  FairQueue queue;
  queue.Push(1, "cancels", 0, 1000);
  for (uint64_t id = 2; id <= 6; ++id) queue.Push(id, "other", 0, 10);
  ASSERT_EQ(First(queue), 1);
  const int64_t end = queue.Pop(1);
  queue.Push(7, "cancels", 0, 10);
  queue.GiveBack("cancels", end, 985);
  EXPECT_THAT(NextTurns(queue), ElementsAre(2, 3, 7, 4, 5, 6));
}

TEST(FairQueueTest, WhatHasLapsedIsNotGivenBack) {
  FairQueue queue;
  queue.Push(1, "alone", 0, 2'000'000);
  const int64_t end = queue.Pop(1);
  queue.Push(2, "alone", 0, 100);
  for (uint64_t id = 11; id <= 14; ++id) queue.Push(id, "other", 0, 30);
  EXPECT_THAT(NextTurns(queue, 1), ElementsAre(2));
  queue.GiveBack("alone", end, 2'000'000);
  queue.GiveBack("alone", end, 2'000'000);
  queue.GiveBack("unknown", end, 2'000'000);
  queue.Push(3, "alone", 0, 100);
  EXPECT_THAT(NextTurns(queue), ElementsAre(11, 12, 13, 14, 3));
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

}  // namespace
}  // namespace tvq
