#include "server/engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "models/runtime/model.h"

namespace tvq {
namespace {

RunningView Prompt(int64_t remaining, int64_t position = 0, size_t model = 0) {
  return {.model = model, .position = position, .prompt_remaining = remaining};
}

RunningView Decoding(int64_t rows, size_t model = 0) {
  return {.model = model, .position = 100, .decode_rows = rows};
}

RunningView Paused(RunningView view) {
  view.ready = false;
  return view;
}

// The draft rows of a step in which these run.
int64_t DraftRows(std::vector<RunningView> running, int64_t drafts, int64_t budget = 512) {
  Scheduler s({{.prefill_chunk = 8, .draft_rows = drafts}}, budget);
  return s.Plan(running).draft_rows;
}

Scheduler One(int64_t budget, int64_t chunk = 8) { return Scheduler({{chunk, 1}}, budget); }

std::map<size_t, int64_t> Prefill(const StepPlan& plan) {
  std::map<size_t, int64_t> tokens;
  for (const PrefillAdvance& a : plan.prefill) tokens[a.request] += a.tokens;
  return tokens;
}

using Tokens = std::map<size_t, int64_t>;

TEST(SchedulerTest, NothingToDoIsAnEmptyPlan) {
  Scheduler s = One(32);
  EXPECT_TRUE(s.Plan({}).empty());
  const std::vector<RunningView> paused = {Paused(Decoding(1)), Paused(Prompt(5))};
  EXPECT_TRUE(s.Plan(paused).empty());
}

TEST(SchedulerTest, AllReadyRowsDecode) {
  Scheduler s = One(4);
  const std::vector<RunningView> running = {Decoding(3), Paused(Decoding(1)), Decoding(4)};
  EXPECT_EQ(s.Plan(running).decode, (std::vector<size_t>{0, 2}));
}

TEST(SchedulerTest, DraftsFillStepsUpToTheRowsOfOneSequenceWithAllOfThem) {
  EXPECT_EQ(DraftRows({Decoding(1)}, 7), 7);
  EXPECT_EQ(DraftRows({Decoding(1), Decoding(2)}, 7), 5);
  EXPECT_EQ(DraftRows({Decoding(8)}, 7), 0);
  EXPECT_EQ(DraftRows({Decoding(60)}, 7), 0);
  EXPECT_EQ(DraftRows({Decoding(1)}, 0), 0);
  // Who is paused takes no row.
  EXPECT_EQ(DraftRows({Decoding(1), Paused(Decoding(7))}, 7), 7);
}

TEST(SchedulerTest, DraftsTakeNothingFromPromptsNorExceedTheBudget) {
  EXPECT_EQ(DraftRows({Decoding(1), Prompt(20)}, 7), 0);
  EXPECT_EQ(DraftRows({Decoding(1), Paused(Prompt(20))}, 7), 7);
  EXPECT_EQ(DraftRows({Decoding(1)}, 7, 4), 3);
  EXPECT_EQ(DraftRows({Decoding(5)}, 7, 4), 0);
}

TEST(SchedulerTest, PromptsTakeWhatDecodeLeavesInWholeChunks) {
  Scheduler s = One(32);
  const std::vector<RunningView> running = {Decoding(5), Prompt(100)};
  EXPECT_EQ(Prefill(s.Plan(running)), (Tokens{{1, 24}}));  // 27 left: three chunks of 8
}

TEST(SchedulerTest, ChunksEndAtAbsoluteMultiples) {
  Scheduler s = One(10);
  const std::vector<RunningView> inside = {Prompt(100, 5)};
  EXPECT_EQ(Prefill(s.Plan(inside)), (Tokens{{0, 3}}));  // to position 8; 8 more exceed 10
  const std::vector<RunningView> tail = {Prompt(2, 5)};
  EXPECT_EQ(Prefill(s.Plan(tail)), (Tokens{{0, 2}}));
}

TEST(SchedulerTest, FirstComeFirstServed) {
  Scheduler s = One(16);
  const std::vector<RunningView> running = {Prompt(9), Prompt(20), Prompt(1)};
  // 8 + 1 for the first; a chunk of 8 does not fit in the 7 left, and the third does not overtake.
  EXPECT_EQ(Prefill(s.Plan(running)), (Tokens{{0, 9}}));
  const std::vector<RunningView> shorter = {Prompt(4), Prompt(4), Prompt(20)};
  EXPECT_EQ(Prefill(s.Plan(shorter)), (Tokens{{0, 4}, {1, 4}, {2, 8}}));
}

TEST(SchedulerTest, APausedPromptIsPassedOver) {
  Scheduler s = One(8);
  const std::vector<RunningView> running = {Paused(Prompt(9)), Prompt(20)};
  EXPECT_EQ(Prefill(s.Plan(running)), (Tokens{{1, 8}}));
}

TEST(SchedulerTest, OneChunkGoesHoweverSmallTheBudgetOrManyTheRows) {
  const std::vector<RunningView> running = {Decoding(64), Prompt(100)};
  for (int64_t budget : {1, 7, 64, 65}) {
    const StepPlan plan = One(budget).Plan(running);
    EXPECT_EQ(plan.decode.size(), 1u);
    EXPECT_EQ(Prefill(plan), (Tokens{{1, 8}}));
  }
}

TEST(SchedulerTest, ModelsTakeTurnsByWeight) {
  Scheduler s({{8, 3}, {8, 1}}, 32);
  const std::vector<RunningView> running = {Decoding(1, 0), Decoding(1, 1)};
  std::vector<int> turns(2);
  for (int step = 0; step < 400; ++step) ++turns[s.Plan(running).model];
  EXPECT_EQ(turns[0], 300);
  EXPECT_EQ(turns[1], 100);
}

TEST(SchedulerTest, AModelThatWasIdleHasNoClaimOnThePast) {
  Scheduler s({{8, 1}, {8, 1}}, 32);
  const std::vector<RunningView> alone = {Decoding(1, 0)};
  for (int step = 0; step < 1000; ++step) EXPECT_EQ(s.Plan(alone).model, 0u);
  const std::vector<RunningView> both = {Decoding(1, 0), Decoding(1, 1)};
  int second = 0;
  for (int step = 0; step < 10; ++step) second += s.Plan(both).model == 1 ? 1 : 0;
  EXPECT_EQ(second, 5);
}

TEST(SchedulerTest, AStepIsOfOneModel) {
  Scheduler s({{8, 1}, {4, 1}}, 32);
  const std::vector<RunningView> running = {Prompt(30, 0, 1), Prompt(30, 0, 0), Decoding(2, 1)};
  const StepPlan first = s.Plan(running);
  const StepPlan second = s.Plan(running);
  ASSERT_EQ(first.model, 0u);
  EXPECT_EQ(Prefill(first), (Tokens{{1, 30}}));
  EXPECT_TRUE(first.decode.empty());
  ASSERT_EQ(second.model, 1u);
  EXPECT_EQ(second.decode, (std::vector<size_t>{2}));
  EXPECT_EQ(Prefill(second), (Tokens{{0, 30}}));  // seven chunks of 4 and one of 2, with 2 rows
}

// A world of random requests, run to its end by the plans.
struct World {
  struct Item {
    RunningView view;
    int64_t decode_left;
  };

  explicit World(uint32_t seed) : random(seed) {}
  int64_t Below(int64_t n) { return static_cast<int64_t>(random() % static_cast<uint32_t>(n)); }

  std::mt19937 random;
  std::vector<Item> items;
};

TEST(SchedulerTest, RandomWorldsKeepBudgetsStarveNobodyAndEnd) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    World w(seed);
    const int64_t models = 1 + w.Below(3);
    const int64_t budget = 1 + w.Below(64);
    std::vector<ModelShare> shares;
    shares.reserve(static_cast<size_t>(models));
    for (int64_t m = 0; m < models; ++m) {
      shares.push_back({1 + w.Below(20), static_cast<int32_t>(1 + w.Below(5))});
    }
    Scheduler scheduler(shares, budget);
    int64_t to_come = 1 + w.Below(30);
    std::vector<int64_t> unserved(static_cast<size_t>(models), 0);  // steps, with work
    for (int steps = 0; to_come > 0 || !w.items.empty(); ++steps) {
      ASSERT_LT(steps, 100000);
      if (to_come > 0 && w.Below(3) == 0) {
        --to_come;
        w.items.push_back({.view = {.model = static_cast<size_t>(w.Below(models)),
                                    .position = w.Below(50),
                                    .prompt_remaining = 1 + w.Below(100)},
                           .decode_left = 1 + w.Below(20)});
      }
      std::vector<RunningView> views;
      std::vector<bool> has_work(static_cast<size_t>(models), false);
      for (auto& item : w.items) {
        item.view.ready = w.Below(4) != 0;
        if (item.view.ready) has_work[item.view.model] = true;
        views.push_back(item.view);
      }
      const StepPlan plan = scheduler.Plan(views);
      const bool any = std::count(has_work.begin(), has_work.end(), true) > 0;
      ASSERT_EQ(plan.empty(), !any);
      if (plan.empty()) continue;
      for (size_t m = 0; m < unserved.size(); ++m) {
        unserved[m] = m == plan.model || !has_work[m] ? 0 : unserved[m] + 1;
        ASSERT_LE(unserved[m], 5 * 2 + 1);  // at most two others, of weight at most 5
      }

      const int64_t chunk = shares[plan.model].prefill_chunk;
      int64_t rows = 0, fed = 0, first_chunk = 0;
      std::vector<bool> advanced(views.size(), false);
      for (size_t i : plan.decode) {
        ASSERT_TRUE(views[i].ready && views[i].model == plan.model);
        ASSERT_EQ(views[i].prompt_remaining, 0);
        advanced[i] = true;
        rows += views[i].decode_rows;
      }
      for (const PrefillAdvance& a : plan.prefill) {
        const RunningView& v = views[a.request];
        ASSERT_TRUE(v.ready && v.model == plan.model);
        ASSERT_GT(a.tokens, 0);
        ASSERT_LE(a.tokens, v.prompt_remaining);
        // Whole chunks: it ends with the prompt or at a multiple.
        ASSERT_TRUE(a.tokens == v.prompt_remaining || (v.position + a.tokens) % chunk == 0);
        ASSERT_FALSE(advanced[a.request]);
        advanced[a.request] = true;
        if (fed == 0) first_chunk = NextChunk(v.position, v.prompt_remaining, chunk);
        fed += a.tokens;
      }
      ASSERT_LE(rows + fed, std::max(budget, rows + first_chunk));

      bool prompt_before = false;  // an earlier prompt of the model, ready, that is not through
      for (size_t i = 0; i < views.size(); ++i) {
        const RunningView& v = views[i];
        if (!v.ready || v.model != plan.model) continue;
        if (v.prompt_remaining == 0) {
          ASSERT_TRUE(advanced[i]) << "a row was left out";
        } else {
          ASSERT_TRUE(advanced[i] || fed > 0) << "prompts stand still";
          ASSERT_FALSE(advanced[i] && prompt_before) << "overtaken";
          const auto mine = Prefill(plan);
          const auto it = mine.find(i);
          prompt_before |= it == mine.end() || it->second < v.prompt_remaining;
        }
      }
      // Carry it out.
      for (size_t i : plan.decode) --w.items[i].decode_left;
      for (const PrefillAdvance& a : plan.prefill) {
        RunningView& v = w.items[a.request].view;
        v.position += a.tokens;
        v.prompt_remaining -= a.tokens;
        if (v.prompt_remaining == 0) v.decode_rows = 1 + w.Below(3);
      }
      std::erase_if(w.items, [](const World::Item& item) { return item.decode_left <= 0; });
    }
  }
}

}  // namespace
}  // namespace tvq
