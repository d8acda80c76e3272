#include "server/engine/scheduling/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/runtime/model.h"

namespace tvq {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

using Counts = std::map<uint64_t, int64_t>;

// A scheduler, and the requests that are not ready. Ids count from 0.
class Bench {
 public:
  explicit Bench(const std::vector<ModelShare>& models, int64_t tokens = 512, int64_t rows = 64)
      : scheduler_(models, rows, tokens) {}

  uint64_t Prompt(int64_t remaining, int64_t position = 0, Asker asker = {}) {
    return Add({.position = position, .prompt_remaining = remaining}, std::move(asker));
  }
  uint64_t Decoding(int64_t rows, Asker asker = {}) {
    return Add({.position = 100, .decode_rows = rows}, std::move(asker));
  }
  uint64_t Add(const Work& work, Asker asker) {
    const uint64_t id = next_++;
    scheduler_.Add(id, std::move(asker));
    scheduler_.SetWork(id, work);
    return id;
  }
  // Not ready, until Resume.
  uint64_t Pause(uint64_t id) {
    paused_.insert(id);
    return id;
  }
  void Resume(uint64_t id) {
    paused_.erase(id);
    scheduler_.Resume(id);
  }
  // The step takes so long.
  StepPlan Plan(int64_t microseconds = 1) {
    StepPlan plan = scheduler_.Plan([this](uint64_t id) { return !paused_.contains(id); });
    if (!plan.empty()) scheduler_.Took(microseconds);
    return plan;
  }
  Scheduler& scheduler() { return scheduler_; }

 private:
  Scheduler scheduler_;
  std::set<uint64_t> paused_;
  uint64_t next_ = 0;
};

Bench One(int64_t budget, int64_t chunk = 8) { return Bench({{chunk, 1}}, budget); }

Counts Rows(const StepPlan& plan) {
  Counts rows;
  for (const DecodeRows& d : plan.decode) rows[d.request] += d.rows;
  return rows;
}

Counts Prefill(const StepPlan& plan) {
  Counts tokens;
  for (const PrefillAdvance& a : plan.prefill) tokens[a.request] += a.tokens;
  return tokens;
}

TEST(SchedulerTest, NothingToDoIsAnEmptyPlan) {
  Bench b = One(32);
  EXPECT_TRUE(b.Plan().empty());
  b.Pause(b.Decoding(1));
  b.Pause(b.Prompt(5));
  const StepPlan plan = b.Plan();
  EXPECT_TRUE(plan.empty());
  EXPECT_THAT(plan.paused, UnorderedElementsAre(0, 1));
  EXPECT_THAT(b.Plan().paused, IsEmpty()) << "they are not asked again";
}

TEST(SchedulerTest, AllReadyRowsDecode) {
  Bench b = One(4);
  b.Decoding(3);
  b.Pause(b.Decoding(1));
  b.Decoding(4);
  EXPECT_EQ(Rows(b.Plan()), (Counts{{0, 3}, {2, 4}}));
}

TEST(SchedulerTest, APausedRequestHasTurnsAgainWhenItIsResumed) {
  Bench b = One(4);
  b.Pause(b.Decoding(1));
  b.Decoding(1);
  EXPECT_EQ(Rows(b.Plan()), (Counts{{1, 1}}));
  b.Resume(0);
  EXPECT_EQ(Rows(b.Plan()), (Counts{{0, 1}, {1, 1}}));
}

TEST(SchedulerTest, WorkThatChangesWhilePausedCountsLater) {
  Bench b = One(32);
  b.Pause(b.Prompt(5));
  EXPECT_TRUE(b.Plan().empty());
  b.scheduler().SetWork(0, {.position = 5, .decode_rows = 2});
  EXPECT_TRUE(b.Plan().empty());
  b.Resume(0);
  EXPECT_EQ(Rows(b.Plan()), (Counts{{0, 2}}));
  b.scheduler().Remove(0);
  EXPECT_TRUE(b.Plan().empty());
}

TEST(SchedulerTest, MoreSequencesThanRowsTakeTurns) {
  Bench b({{8, 1}}, 512, /*rows=*/4);
  for (int i = 0; i < 10; ++i) b.Decoding(1);
  Counts rows;
  for (int step = 0; step < 10; ++step) {
    const StepPlan plan = b.Plan();
    EXPECT_TRUE(plan.crowded);
    EXPECT_EQ(plan.decode.size(), 4u);
    for (const auto& [id, count] : Rows(plan)) rows[id] += count;
  }
  for (uint64_t id = 0; id < 10; ++id) EXPECT_EQ(rows[id], 4) << id;
}

TEST(SchedulerTest, ARequestOfManySamplesIsServedInPartsAndOthersBesideIt) {
  Bench b({{8, 1}}, 512, /*rows=*/4);
  b.Decoding(6);
  b.Decoding(1);
  Counts rows;
  for (int step = 0; step < 14; ++step) {
    for (const auto& [id, count] : Rows(b.Plan())) rows[id] += count;
  }
  EXPECT_EQ(rows[0] + rows[1], 14 * 4);
  EXPECT_EQ(rows[1], 14) << "one a step, as it asks";
}

TEST(SchedulerTest, AStepWithRowsForAllIsNotCrowded) {
  Bench b({{8, 1}}, 512, /*rows=*/4);
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
  Bench b({{8, 1}}, 512, /*rows=*/12);
  for (int i = 0; i < 500; ++i) b.Decoding(1, {.owner = "a"});
  for (int i = 0; i < 20; ++i) b.Decoding(1, {.owner = "b", .limits = {.weight = 2}});
  for (int i = 0; i < 20; ++i) b.Decoding(1, {.owner = "c", .limits = {.max_num_seqs = 1}});
  Counts rows;  // of owners
  for (int step = 0; step < 100; ++step) {
    for (const auto& [id, count] : Rows(b.Plan())) rows[id < 500 ? 0 : id < 520 ? 1 : 2] += count;
  }
  EXPECT_EQ(rows[2], 100);
  EXPECT_NEAR(static_cast<double>(rows[1]), 2 * static_cast<double>(rows[0]), 10);
  EXPECT_EQ(rows[0] + rows[1] + rows[2], 1200);
}

TEST(SchedulerTest, AnotherOwnersPromptIsReadBesideManyOfOne) {
  Bench b({{8, 1}}, 32);
  for (int i = 0; i < 500; ++i) b.Prompt(80, 0, {.owner = "a"});
  const uint64_t late = b.Prompt(16, 0, {.owner = "b"});
  const StepPlan plan = b.Plan();
  EXPECT_EQ(Prefill(plan), (Counts{{0, 16}, {late, 16}}));
}

TEST(SchedulerTest, PromptsOfAnOwnerGoByPriorityThenByWhatIsLeft) {
  Bench b({{8, 1}}, 8);
  b.Prompt(8, 0, {.priority = 1});
  b.Prompt(16, 0, {.priority = 0});
  EXPECT_EQ(Prefill(b.Plan()), (Counts{{1, 8}}));
}

// The draft rows of a step in which so many rows decode, or none of `paused`.
int64_t DraftRows(const std::vector<int64_t>& decoding, int64_t drafts, int64_t budget = 512,
                  const std::vector<int64_t>& paused = {}, int64_t prompt = 0) {
  Bench b({{.prefill_chunk = 8, .draft_rows = drafts}}, budget);
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

TEST(SchedulerTest, PromptsTakeWhatDecodeLeavesInWholeChunks) {
  Bench b = One(32);
  b.Decoding(5);
  b.Prompt(100);
  EXPECT_EQ(Prefill(b.Plan()), (Counts{{1, 24}}));  // 27 left: three chunks of 8
}

TEST(SchedulerTest, ChunksEndAtAbsoluteMultiples) {
  Bench inside = One(10);
  inside.Prompt(100, 5);
  EXPECT_EQ(Prefill(inside.Plan()), (Counts{{0, 3}}));  // to position 8; 8 more exceed 10
  Bench tail = One(10);
  tail.Prompt(2, 5);
  EXPECT_EQ(Prefill(tail.Plan()), (Counts{{0, 2}}));
}

TEST(SchedulerTest, TheShortestPromptGoesFirst) {
  Bench b = One(16);
  b.Prompt(9);
  b.Prompt(20);
  b.Prompt(1);
  // A chunk of 8 for the second does not fit in the 6 left.
  EXPECT_EQ(Prefill(b.Plan()), (Counts{{0, 9}, {2, 1}}));
  Bench equal = One(16);
  equal.Prompt(20);
  equal.Prompt(4);
  equal.Prompt(4);
  EXPECT_EQ(Prefill(equal.Plan()), (Counts{{0, 8}, {1, 4}, {2, 4}}));
}

// Carries out steps of a chunk each. Returns the requests in the order of their chunks.
std::vector<uint64_t> FeedChunks(Bench& b, std::map<uint64_t, Work>& prompts, int steps) {
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

TEST(SchedulerTest, AShortPromptBesideLongOnesIsFedWithinFiveChunksAndTheLongOnesEnd) {
  for (const int32_t priority : {-1, 0}) {
    Bench b = One(8);
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

TEST(SchedulerTest, EveryFourthChunkIsTheOldestPromptsHoweverManyAreShorter) {
  Bench b = One(8);
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

TEST(SchedulerTest, EndlessRowsThatGoFirstLeaveTheOwnersOthersHalf) {
  Bench b({{8, 1}}, 512, /*rows=*/8);
  for (int i = 0; i < 64; ++i) b.Decoding(1, {.priority = -1});
  const uint64_t normal = b.Decoding(1);
  int64_t alone = 0;
  for (int step = 0; step < 130; ++step) alone += Rows(b.Plan()).contains(normal) ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(alone), 130 * 8 / 65.0, 1) << "as many as without priorities";

  for (int i = 0; i < 64; ++i) b.Decoding(1);
  int64_t first = 0;
  for (int step = 0; step < 100; ++step) {
    for (const auto& [id, rows] : Rows(b.Plan())) first += id < 64 ? rows : 0;
  }
  EXPECT_NEAR(static_cast<double>(first), 400, 40);
}

TEST(SchedulerTest, APausedPromptIsPassedOver) {
  Bench b = One(8);
  b.Pause(b.Prompt(9));
  b.Prompt(20);
  EXPECT_EQ(Prefill(b.Plan()), (Counts{{1, 8}}));
}

TEST(SchedulerTest, OneChunkGoesHoweverSmallTheBudgetOrManyTheRows) {
  for (int64_t budget : {1, 7, 64, 65}) {
    Bench b = One(budget);
    b.Decoding(64);
    b.Prompt(100);
    const StepPlan plan = b.Plan();
    EXPECT_EQ(Rows(plan), (Counts{{0, 64}}));
    EXPECT_EQ(Prefill(plan), (Counts{{1, 8}}));
  }
}

TEST(SchedulerTest, ModelsTakeTurnsByWeight) {
  Bench b({{8, 3}, {8, 1}}, 32);
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
  Bench b(std::vector<ModelShare>(microseconds.size(), {8, 1}), 512, /*rows=*/16);
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
    for (const auto& [id, rows] : Rows(plan)) {
      // A row's part of the step.
      const double part = static_cast<double>(rows * took) / 16;
      all += part;
      of_b += id >= first ? part : 0;
    }
  }
  for (double& t : time) t /= total;
  return {.rows = of_b / all, .steps = time[0], .others = time};
}

TEST(SchedulerTest, AnOwnersShareOfTheDeviceIsTheSameHoweverManyModelsAnotherUses) {
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

TEST(SchedulerTest, AnOwnerThatWantsFewRowsHasThemAsOftenAsWithItsShareAlone) {
  const Shared shared = BesideOneOnAll({7, 7, 7, 7}, 2);
  EXPECT_GE(shared.steps, 0.5);
  EXPECT_NEAR(shared.rows, shared.steps * 2 / 16, 0.01);
}

TEST(SchedulerTest, AnOwnerThatComesWaitsForAStepOfEachOtherModelAtMost) {
  Bench b(std::vector<ModelShare>(8, {8, 1}), 512, /*rows=*/16);
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
    while (!Rows(b.Plan()).contains(id)) ++steps;
    EXPECT_LE(steps, 8) << round;
    b.scheduler().Remove(id);
  }
}

TEST(SchedulerTest, ModelsShareTimeNotSteps) {
  Bench b({{8, 1}, {8, 1}}, 32);
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

TEST(SchedulerTest, AModelThatWasIdleHasNoClaimOnThePast) {
  Bench b({{8, 1}, {8, 1}}, 32);
  b.Decoding(1, {.model = 0});
  for (int step = 0; step < 1000; ++step) EXPECT_EQ(b.Plan().model, 0u);
  b.Decoding(1, {.model = 1});
  int second = 0;
  for (int step = 0; step < 10; ++step) second += b.Plan().model == 1 ? 1 : 0;
  EXPECT_EQ(second, 5);
}

TEST(SchedulerTest, AModelWhoseReadersAreAllBehindIsPassedOver) {
  Bench b({{8, 1}, {8, 1}}, 32);
  b.Pause(b.Decoding(1, {.model = 0}));
  b.Decoding(1, {.model = 1});
  const StepPlan plan = b.Plan();
  EXPECT_EQ(plan.model, 1u);
  EXPECT_EQ(Rows(plan), (Counts{{1, 1}}));
  EXPECT_THAT(plan.paused, ElementsAre(0));
}

TEST(SchedulerTest, AStepIsOfOneModel) {
  Bench b({{8, 1}, {4, 1}}, 32);
  b.Prompt(30, 0, {.model = 1});
  b.Prompt(30, 0, {.model = 0});
  b.Decoding(2, {.model = 1});
  const StepPlan first = b.Plan();
  const StepPlan second = b.Plan();
  ASSERT_EQ(first.model, 0u);
  EXPECT_EQ(Prefill(first), (Counts{{1, 30}}));
  EXPECT_TRUE(first.decode.empty());
  ASSERT_EQ(second.model, 1u);
  EXPECT_EQ(Rows(second), (Counts{{2, 2}}));
  EXPECT_EQ(Prefill(second), (Counts{{0, 30}}));  // seven chunks of 4 and one of 2, with 2 rows
}

// A world of random requests, run to its end by the plans.
class World {
 public:
  explicit World(uint32_t seed) : random_(seed) {
    models_ = 1 + Below(3);
    budget_ = 1 + Below(64);
    rows_ = 1 + Below(12);
    for (int64_t m = 0; m < models_; ++m) {
      shares_.push_back({1 + Below(20), static_cast<int32_t>(1 + Below(5))});
    }
    scheduler_ = std::make_unique<Scheduler>(shares_, rows_, budget_);
    to_come_ = 1 + Below(30);
    unserved_.resize(shares_.size(), 0);
  }

  bool Ended() const { return to_come_ == 0 && items_.empty(); }

  void Step() {
    Come();
    ChangeReadiness();
    const StepPlan plan = scheduler_->Plan([this](uint64_t id) { return items_.at(id).ready; });
    for (const uint64_t id : plan.paused) {
      ASSERT_FALSE(items_.at(id).ready);
      ASSERT_FALSE(std::exchange(items_.at(id).paused, true));
    }
    std::vector<bool> has_work(shares_.size(), false);
    for (const auto& [id, item] : items_) {
      if (item.ready) has_work[item.model] = true;
    }
    ASSERT_EQ(plan.empty(), std::count(has_work.begin(), has_work.end(), true) == 0);
    if (plan.empty()) return;
    scheduler_->Took(1);
    for (size_t m = 0; m < unserved_.size(); ++m) {
      unserved_[m] = m == plan.model || !has_work[m] ? 0 : unserved_[m] + 1;
      // At most two others, each of weight 5 with owners of weights 3, beside a model of weight 1
      // with an owner of weight 1, which has work for the others, too.
      ASSERT_LE(unserved_[m], 2 * 5 * (3 + 3 + 3) * (1 + 5 + 5) / 5);
    }
    CheckRows(plan);
    CheckPrompts(plan);
    CarryOut(plan);
  }

 private:
  struct Item {
    size_t model = 0;
    Work work;
    int64_t decode_left = 0;  // rows
    bool ready = true;
    bool paused = false;
    int64_t waited = 0;  // steps of its model without a turn, though it was ready
  };

  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint32_t>(n)); }

  void Come() {
    if (to_come_ == 0 || Below(3) != 0) return;
    --to_come_;
    const uint64_t id = next_++;
    const Item item{.model = static_cast<size_t>(Below(models_)),
                    .work = {.position = Below(50), .prompt_remaining = 1 + Below(100)},
                    .decode_left = 1 + Below(40)};
    scheduler_->Add(id, {.model = item.model,
                         .owner = std::string(1, static_cast<char>('a' + Below(3))),
                         .limits = {.weight = static_cast<int32_t>(1 + Below(3)),
                                    .max_num_seqs = Below(2) * (1 + Below(4))},
                         .priority = static_cast<int32_t>(Below(3))});
    scheduler_->SetWork(id, item.work);
    items_[id] = item;
  }

  void ChangeReadiness() {
    for (auto& [id, item] : items_) {
      item.ready = Below(4) != 0;
      if (item.paused && item.ready) {
        item.paused = false;
        scheduler_->Resume(id);
      }
    }
  }

  void CheckRows(const StepPlan& plan) {
    int64_t rows = 0;
    for (const auto& [id, count] : Rows(plan)) {
      const Item& item = items_.at(id);
      ASSERT_TRUE(item.ready && item.model == plan.model);
      ASSERT_EQ(item.work.prompt_remaining, 0);
      ASSERT_LE(count, item.work.decode_rows);
      rows += count;
    }
    ASSERT_LE(rows, rows_);
    for (auto& [id, item] : items_) {
      if (!item.ready || item.model != plan.model || item.work.prompt_remaining > 0) continue;
      const bool served = Rows(plan).contains(id);
      // At most 30 requests of at most 3 samples, owners of weight up to 3, or a row a step, of
      // which every other goes by priority.
      item.waited = served ? 0 : item.waited + 1;
      ASSERT_LE(item.waited, 2 * 3 * 90) << "starved";
    }
  }

  void CheckPrompts(const StepPlan& plan) {
    const int64_t chunk = shares_[plan.model].prefill_chunk;
    int64_t fed = 0, first_chunk = 0;
    for (const PrefillAdvance& a : plan.prefill) {
      const Item& item = items_.at(a.request);
      ASSERT_TRUE(item.ready && item.model == plan.model);
      ASSERT_GT(a.tokens, 0);
      ASSERT_LE(a.tokens, item.work.prompt_remaining);
      // Whole chunks: it ends with the prompt or at a multiple.
      ASSERT_TRUE(a.tokens == item.work.prompt_remaining ||
                  (item.work.position + a.tokens) % chunk == 0);
      if (fed == 0) first_chunk = NextChunk(item.work.position, item.work.prompt_remaining, chunk);
      fed += a.tokens;
    }
    ASSERT_EQ(Prefill(plan).size(), plan.prefill.size()) << "a request stands there twice";
    int64_t rows = 0;
    for (const auto& [id, count] : Rows(plan)) rows += count;
    ASSERT_LE(rows + fed, std::max(budget_, rows + first_chunk));
    for (const auto& [id, item] : items_) {
      if (item.ready && item.model == plan.model && item.work.prompt_remaining > 0) {
        ASSERT_GT(fed, 0) << "prompts stand still";
      }
    }
  }

  void CarryOut(const StepPlan& plan) {
    for (const auto& [id, count] : Rows(plan)) items_.at(id).decode_left -= count;
    for (const PrefillAdvance& a : plan.prefill) {
      Work& work = items_.at(a.request).work;
      work.position += a.tokens;
      work.prompt_remaining -= a.tokens;
      if (work.prompt_remaining == 0) work.decode_rows = 1 + Below(3);
    }
    for (auto it = items_.begin(); it != items_.end();) {
      const auto& [id, item] = *it;
      if (item.decode_left <= 0) {
        scheduler_->Remove(id);
        it = items_.erase(it);
      } else {
        scheduler_->SetWork(id, item.work);
        ++it;
      }
    }
  }

  std::mt19937 random_;
  int64_t models_ = 0, budget_ = 0, rows_ = 0, to_come_ = 0;
  std::vector<ModelShare> shares_;
  std::unique_ptr<Scheduler> scheduler_;
  std::map<uint64_t, Item> items_;
  std::vector<int64_t> unserved_;  // steps, of models with work
  uint64_t next_ = 0;
};

TEST(SchedulerTest, RandomWorldsKeepBudgetsStarveNobodyAndEnd) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed);
    for (int steps = 0; !world.Ended(); ++steps) {
      ASSERT_LT(steps, 100000);
      world.Step();
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace tvq
