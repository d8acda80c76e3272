// Whose step comes next, of several models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/server/engine/scheduling/scheduler_bench.h"

namespace tvq {
namespace {

using ::testing::ElementsAre;

TEST(SchedulerModelsTest, ModelsTakeTurnsByWeight) {
  SchedulerBench b({{8, 3}, {8, 1}}, 32);
  b.Decoding(1, {.model = 0});
  b.Decoding(1, {.model = 1});
  std::vector<int> turns(2);
  for (int step = 0; step < 400; ++step) ++turns[b.Plan().model];
  EXPECT_THAT(turns, ElementsAre(300, 100));
}

// Rows of a second owner that wants them of the first model alone, beside one with as many requests
// for each of the models, each of so many microseconds a step.
struct Shared {
  double rows = 0;             // of all
  double steps = 0;            // of its model, in time
  std::vector<double> others;  // of the models, in time
};
Shared BesideOneOnAll(const std::vector<int64_t>& microseconds, int count,
                      OwnerLimits limits = {}) {
  SchedulerBench b(std::vector<ModelShare>(microseconds.size(), {8, 1}), 512, /*rows=*/16);
  for (size_t m = 0; m < microseconds.size(); ++m) {
    for (int i = 0; i < 64; ++i) b.Decoding(1, {.model = m, .owner = "a"});
  }
  const uint64_t first = 64 * microseconds.size();
  for (int i = 0; i < count; ++i) b.Decoding(1, {.owner = "b", .limits = limits});
  std::vector<double> time(microseconds.size());
  double of_b = 0, all = 0, total = 0;
  for (int step = -4000; step < 8000; ++step) {
    const StepPlan plan = b.scheduler().Plan([](uint64_t) { return true; });
    const auto took = microseconds[plan.model];
    b.scheduler().Took(took);
    if (step < 0) continue;  // what steps take is not known yet
    time[plan.model] += static_cast<double>(took);
    total += static_cast<double>(took);
    for (const auto& [id, rows] : RowsOf(plan)) {
      // A row's part of the step.
      const double part = static_cast<double>(rows * took) / 16;
      all += part;
      of_b += id >= first ? part : 0;
    }
  }
  for (double& t : time) t /= total;
  return {.rows = of_b / all, .steps = time[0], .others = time};
}

TEST(SchedulerModelsTest, AnOwnersShareOfTheDeviceIsTheSameHoweverManyModelsAnotherUses) {
  for (const std::vector<int64_t>& models : {std::vector<int64_t>{7},
                                             {7, 7},
                                             {7, 7, 7, 7},
                                             {100, 100, 10, 50},
                                             {20, 100, 100, 100},
                                             {9, 9, 9, 9, 9, 9, 9, 9}}) {
    SCOPED_TRACE(models.size());
    const Shared shared = BesideOneOnAll(models, 64);
    EXPECT_NEAR(shared.rows, 0.5, 0.02);
    for (size_t m = 1; m < models.size(); ++m) {
      EXPECT_NEAR(shared.others[m], 0.5 / static_cast<double>(models.size()), 0.02) << m;
    }
    EXPECT_NEAR(BesideOneOnAll(models, 64, {.weight = 3}).rows, 0.75, 0.02);
  }
}

TEST(SchedulerModelsTest, AnOwnerThatWantsFewRowsHasThemAsOftenAsWithItsShareAlone) {
  const Shared shared = BesideOneOnAll({7, 7, 7, 7}, 2);
  EXPECT_GE(shared.steps, 0.5);
  EXPECT_NEAR(shared.rows, shared.steps * 2 / 16, 0.01);
}

TEST(SchedulerModelsTest, AnOwnerThatComesWaitsForAStepOfEachOtherModelAtMost) {
  SchedulerBench b(std::vector<ModelShare>(8, {8, 1}), 512, /*rows=*/16);
  for (size_t m = 0; m < 8; ++m) {
    for (int i = 0; i < 64; ++i) b.Decoding(1, {.model = m, .owner = "a"});
  }
  for (int round = 0; round < 20; ++round) {
    // One long step of its model, for which the other owner owes the others many.
    for (int step = 0; step < 10 + round; ++step) b.Plan();
    StepPlan plan;
    do plan = b.Plan(round % 2 == 0 ? 1 : 5);
    while (plan.model != 0);
    const uint64_t id = b.Decoding(1, {.owner = "b"});
    int steps = 1;
    while (!RowsOf(b.Plan()).contains(id)) ++steps;
    EXPECT_LE(steps, 8) << round;
    b.scheduler().Remove(id);
  }
}

TEST(SchedulerModelsTest, ModelsShareTimeNotSteps) {
  SchedulerBench b({{8, 1}, {8, 1}}, 32);
  b.Decoding(1, {.model = 0});
  b.Decoding(1, {.model = 1});
  std::vector<int> steps(2);
  const auto run = [&](int count) {
    for (int i = 0; i < count; ++i) {
      const StepPlan plan = b.scheduler().Plan([](uint64_t) { return true; });
      b.scheduler().Took(plan.model == 0 ? 1000 : 100);
      ++steps[plan.model];
    }
  };
  run(1000);
  steps = {0, 0};
  run(1100);
  EXPECT_NEAR(steps[0], 100, 3);
  // One that took an hour, as the machine slept, is paid back as a second, and not all at once.
  while (b.scheduler().Plan([](uint64_t) { return true; }).model != 0) b.scheduler().Took(100);
  b.scheduler().Took(int64_t{3'600'000'000});
  int until = 0;
  while (b.scheduler().Plan([](uint64_t) { return true; }).model != 0) {
    b.scheduler().Took(100);
    ++until;
  }
  b.scheduler().Took(1000);
  EXPECT_LE(until, 10'000 / 16 + 20);
  steps = {0, 0};
  run(11'000 + 10'000);
  EXPECT_NEAR(steps[1], 20'000, 700);
}

TEST(SchedulerModelsTest, AModelThatWasIdleHasNoClaimOnThePast) {
  SchedulerBench b({{8, 1}, {8, 1}}, 32);
  b.Decoding(1, {.model = 0});
  for (int step = 0; step < 1000; ++step) EXPECT_EQ(b.Plan().model, 0u);
  b.Decoding(1, {.model = 1});
  int second = 0;
  for (int step = 0; step < 10; ++step) second += b.Plan().model == 1 ? 1 : 0;
  EXPECT_EQ(second, 5);
}

TEST(SchedulerModelsTest, AModelWhoseReadersAreAllBehindIsPassedOver) {
  SchedulerBench b({{8, 1}, {8, 1}}, 32);
  b.Pause(b.Decoding(1, {.model = 0}));
  b.Decoding(1, {.model = 1});
  const StepPlan plan = b.Plan();
  EXPECT_EQ(plan.model, 1u);
  EXPECT_EQ(RowsOf(plan), (Counts{{1, 1}}));
  EXPECT_THAT(plan.paused, ElementsAre(0));
}

TEST(SchedulerModelsTest, AStepIsOfOneModel) {
  SchedulerBench b({{8, 1}, {4, 1}}, 32);
  b.Prompt(30, 0, {.model = 1});
  b.Prompt(30, 0, {.model = 0});
  b.Decoding(2, {.model = 1});
  const StepPlan first = b.Plan();
  const StepPlan second = b.Plan();
  ASSERT_EQ(first.model, 0u);
  EXPECT_EQ(PrefillOf(first), (Counts{{1, 30}}));
  EXPECT_TRUE(first.decode.empty());
  ASSERT_EQ(second.model, 1u);
  EXPECT_EQ(RowsOf(second), (Counts{{2, 2}}));
  EXPECT_EQ(PrefillOf(second), (Counts{{0, 30}}));  // seven chunks of 4 and one of 2, with 2 rows
}

}  // namespace
}  // namespace tvq
