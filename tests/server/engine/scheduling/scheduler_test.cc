#include "server/engine/scheduling/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/server/engine/scheduling/scheduler_bench.h"

namespace tvq {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST(SchedulerTest, NothingToDoIsAnEmptyPlan) {
  SchedulerBench b = OneModel(32);
  EXPECT_TRUE(b.Plan().empty());
  b.Pause(b.Decoding(1));
  b.Pause(b.Prompt(5));
  const StepPlan plan = b.Plan();
  EXPECT_TRUE(plan.empty());
  EXPECT_THAT(plan.paused, UnorderedElementsAre(0, 1));
  EXPECT_THAT(b.Plan().paused, IsEmpty()) << "they are not asked again";
}

TEST(SchedulerTest, AllReadyRowsDecode) {
  SchedulerBench b = OneModel(4);
  b.Decoding(3);
  b.Pause(b.Decoding(1));
  b.Decoding(4);
  EXPECT_EQ(RowsOf(b.Plan()), (Counts{{0, 3}, {2, 4}}));
}

TEST(SchedulerTest, APausedRequestHasTurnsAgainWhenItIsResumed) {
  SchedulerBench b = OneModel(4);
  b.Pause(b.Decoding(1));
  b.Decoding(1);
  EXPECT_EQ(RowsOf(b.Plan()), (Counts{{1, 1}}));
  b.Resume(0);
  EXPECT_EQ(RowsOf(b.Plan()), (Counts{{0, 1}, {1, 1}}));
}

TEST(SchedulerTest, WorkThatChangesWhilePausedCountsLater) {
  SchedulerBench b = OneModel(32);
  b.Pause(b.Prompt(5));
  EXPECT_TRUE(b.Plan().empty());
  b.scheduler().SetWork(0, {.position = 5, .decode_rows = 2});
  EXPECT_TRUE(b.Plan().empty());
  b.Resume(0);
  EXPECT_EQ(RowsOf(b.Plan()), (Counts{{0, 2}}));
  b.scheduler().Remove(0);
  EXPECT_TRUE(b.Plan().empty());
}

TEST(SchedulerTest, MoreSequencesThanRowsTakeTurns) {
  SchedulerBench b({{8, 1}}, 512, /*rows=*/4);
  for (int i = 0; i < 10; ++i) b.Decoding(1);
  Counts rows;
  for (int step = 0; step < 10; ++step) {
    const StepPlan plan = b.Plan();
    EXPECT_TRUE(plan.crowded);
    EXPECT_EQ(plan.decode.size(), 4u);
    for (const auto& [id, count] : RowsOf(plan)) rows[id] += count;
  }
  for (uint64_t id = 0; id < 10; ++id) EXPECT_EQ(rows[id], 4) << id;
}

TEST(SchedulerTest, ARequestOfManySamplesIsServedInPartsAndOthersBesideIt) {
  SchedulerBench b({{8, 1}}, 512, /*rows=*/4);
  b.Decoding(6);
  b.Decoding(1);
  Counts rows;
  for (int step = 0; step < 14; ++step) {
    for (const auto& [id, count] : RowsOf(b.Plan())) rows[id] += count;
  }
  EXPECT_EQ(rows[0] + rows[1], 14 * 4);
  EXPECT_EQ(rows[1], 14) << "one a step, as it asks";
}

TEST(SchedulerTest, AStepWithRowsForAllIsNotCrowded) {
  SchedulerBench b({{8, 1}}, 512, /*rows=*/4);
  b.Decoding(3);
  EXPECT_FALSE(b.Plan().crowded);
  b.Pause(b.Decoding(5));
  EXPECT_FALSE(b.Plan().crowded);
  b.Decoding(1);
  EXPECT_FALSE(b.Plan().crowded);
  b.Decoding(1);
  EXPECT_TRUE(b.Plan().crowded);
}

TEST(SchedulerTest, OwnersShareRowsByWeightAndLimit) {
  SchedulerBench b({{8, 1}}, 512, /*rows=*/12);
  for (int i = 0; i < 500; ++i) b.Decoding(1, {.owner = "a"});
  for (int i = 0; i < 20; ++i) b.Decoding(1, {.owner = "b", .limits = {.weight = 2}});
  for (int i = 0; i < 20; ++i) b.Decoding(1, {.owner = "c", .limits = {.max_num_seqs = 1}});
  Counts rows;  // of owners
  for (int step = 0; step < 100; ++step) {
    for (const auto& [id, count] : RowsOf(b.Plan())) rows[id < 500 ? 0 : id < 520 ? 1 : 2] += count;
  }
  EXPECT_EQ(rows[2], 100);
  EXPECT_NEAR(static_cast<double>(rows[1]), 2 * static_cast<double>(rows[0]), 10);
  EXPECT_EQ(rows[0] + rows[1] + rows[2], 1200);
}

TEST(SchedulerTest, EndlessRowsThatGoFirstLeaveTheOwnersOthersHalf) {
  SchedulerBench b({{8, 1}}, 512, /*rows=*/8);
  for (int i = 0; i < 64; ++i) b.Decoding(1, {.priority = -1});
  const uint64_t normal = b.Decoding(1);
  int64_t alone = 0;
  for (int step = 0; step < 130; ++step) alone += RowsOf(b.Plan()).contains(normal) ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(alone), 130 * 8 / 65.0, 1) << "as many as without priorities";

  for (int i = 0; i < 64; ++i) b.Decoding(1);
  int64_t first = 0;
  for (int step = 0; step < 100; ++step) {
    for (const auto& [id, rows] : RowsOf(b.Plan())) first += id < 64 ? rows : 0;
  }
  EXPECT_NEAR(static_cast<double>(first), 400, 40);
}

// The draft rows of a step in which so many rows decode, or none of `paused`.
int64_t DraftRows(const std::vector<int64_t>& decoding, int64_t drafts, int64_t budget = 512,
                  const std::vector<int64_t>& paused = {}, int64_t prompt = 0) {
  SchedulerBench b({{.prefill_chunk = 8, .draft_rows = drafts}}, budget);
  for (const int64_t rows : decoding) b.Decoding(rows);
  for (const int64_t rows : paused) b.Pause(b.Decoding(rows));
  if (prompt > 0) b.Prompt(prompt);
  return b.Plan().draft_rows;
}

TEST(SchedulerTest, DraftsFillStepsUpToTheRowsOfOneSequenceWithAllOfThem) {
  EXPECT_EQ(DraftRows({1}, 7), 7);
  EXPECT_EQ(DraftRows({1, 2}, 7), 5);
  EXPECT_EQ(DraftRows({8}, 7), 0);
  EXPECT_EQ(DraftRows({60}, 7), 0);
  EXPECT_EQ(DraftRows({1}, 0), 0);
  EXPECT_EQ(DraftRows({1}, 7, 512, /*paused=*/{7}), 7) << "who is paused takes no row";
}

TEST(SchedulerTest, DraftsTakeNothingFromPromptsNorExceedTheBudget) {
  EXPECT_EQ(DraftRows({1}, 7, 512, {}, /*prompt=*/20), 0);
  EXPECT_EQ(DraftRows({1}, 7, 4), 3);
  EXPECT_EQ(DraftRows({5}, 7, 4), 0);
}

}  // namespace
}  // namespace tvq
