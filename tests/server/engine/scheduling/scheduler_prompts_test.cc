// Which prompts a step feeds, and how much of each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "tests/server/engine/scheduling/scheduler_bench.h"

namespace tvq {
namespace {

TEST(SchedulerPromptsTest, AnotherOwnersPromptIsReadBesideManyOfOne) {
  SchedulerBench b({{8, 1}}, 32);
  for (int i = 0; i < 500; ++i) b.Prompt(80, 0, {.owner = "a"});
  const uint64_t late = b.Prompt(16, 0, {.owner = "b"});
  const StepPlan plan = b.Plan();
  EXPECT_EQ(PrefillOf(plan), (Counts{{0, 16}, {late, 16}}));
}

TEST(SchedulerPromptsTest, PromptsOfAnOwnerGoByPriorityThenByWhatIsLeft) {
  SchedulerBench b({{8, 1}}, 8);
  b.Prompt(8, 0, {.priority = 1});
  b.Prompt(16, 0, {.priority = 0});
  EXPECT_EQ(PrefillOf(b.Plan()), (Counts{{1, 8}}));
}

TEST(SchedulerPromptsTest, PromptsTakeWhatDecodeLeavesInWholeChunks) {
  SchedulerBench b = OneModel(32);
  b.Decoding(5);
  b.Prompt(100);
  EXPECT_EQ(PrefillOf(b.Plan()), (Counts{{1, 24}}));  // 27 left: three chunks of 8
}

TEST(SchedulerPromptsTest, ChunksEndAtAbsoluteMultiples) {
  SchedulerBench inside = OneModel(10);
  inside.Prompt(100, 5);
  EXPECT_EQ(PrefillOf(inside.Plan()), (Counts{{0, 3}}));  // to position 8; 8 more exceed 10
  SchedulerBench tail = OneModel(10);
  tail.Prompt(2, 5);
  EXPECT_EQ(PrefillOf(tail.Plan()), (Counts{{0, 2}}));
}

TEST(SchedulerPromptsTest, TheShortestPromptGoesFirst) {
  SchedulerBench b = OneModel(16);
  b.Prompt(9);
  b.Prompt(20);
  b.Prompt(1);
  // A chunk of 8 for the second does not fit in the 6 left.
  EXPECT_EQ(PrefillOf(b.Plan()), (Counts{{0, 9}, {2, 1}}));
  SchedulerBench equal = OneModel(16);
  equal.Prompt(20);
  equal.Prompt(4);
  equal.Prompt(4);
  EXPECT_EQ(PrefillOf(equal.Plan()), (Counts{{0, 8}, {1, 4}, {2, 4}}));
}

// Carries out steps of a chunk each. Returns the requests in the order of their chunks.
std::vector<uint64_t> FeedChunks(SchedulerBench& b, std::map<uint64_t, Work>& prompts, int steps) {
  std::vector<uint64_t> order;
  for (int step = 0; step < steps; ++step) {
    const StepPlan plan = b.Plan();
    for (const PrefillAdvance& a : plan.prefill) {
      order.push_back(a.request);
      Work& work = prompts[a.request];
      work.position += a.tokens;
      work.prompt_remaining -= a.tokens;
      b.scheduler().SetWork(a.request, work);
    }
  }
  return order;
}

TEST(SchedulerPromptsTest, AShortPromptBesideLongOnesIsFedWithinFiveChunksAndTheLongOnesEnd) {
  for (const int32_t priority : {-1, 0}) {
    SchedulerBench b = OneModel(8);
    std::map<uint64_t, Work> prompts;
    for (int i = 0; i < 10; ++i) {
      const uint64_t id = b.Prompt(1000 + i, 0, {.priority = priority});
      prompts[id] = {.prompt_remaining = 1000 + i};
    }
    FeedChunks(b, prompts, 37);
    for (int before = 0; before < 4; ++before) {
      FeedChunks(b, prompts, 1);  // so that it comes before any of four turns
      const uint64_t quick = b.Prompt(8);
      prompts[quick] = {.prompt_remaining = 8};
      EXPECT_THAT(FeedChunks(b, prompts, 5), testing::Contains(quick));
    }
    while (!FeedChunks(b, prompts, 1).empty()) {
    }
    for (const auto& [id, work] : prompts) EXPECT_EQ(work.prompt_remaining, 0) << id;
  }
}

TEST(SchedulerPromptsTest, EveryFourthChunkIsTheOldestPromptsHoweverManyAreShorter) {
  SchedulerBench b = OneModel(8);
  const uint64_t oldest = b.Prompt(800, 0, {.priority = 7});
  std::map<uint64_t, Work> prompts{{oldest, {.prompt_remaining = 800}}};
  int64_t fed = 0;
  for (int step = 0; step < 100; ++step) {
    const uint64_t quick = b.Prompt(8);
    prompts[quick] = {.prompt_remaining = 8};
    fed += FeedChunks(b, prompts, 1).front() == oldest ? 1 : 0;
  }
  EXPECT_EQ(fed, 25);
}

TEST(SchedulerPromptsTest, APausedPromptIsPassedOver) {
  SchedulerBench b = OneModel(8);
  b.Pause(b.Prompt(9));
  b.Prompt(20);
  EXPECT_EQ(PrefillOf(b.Plan()), (Counts{{1, 8}}));
}

TEST(SchedulerPromptsTest, OneChunkGoesHoweverSmallTheBudgetOrManyTheRows) {
  for (int64_t budget : {1, 7, 64, 65}) {
    SchedulerBench b = OneModel(budget);
    b.Decoding(64);
    b.Prompt(100);
    const StepPlan plan = b.Plan();
    EXPECT_EQ(RowsOf(plan), (Counts{{0, 64}}));
    EXPECT_EQ(PrefillOf(plan), (Counts{{1, 8}}));
  }
}

}  // namespace
}  // namespace tvq
