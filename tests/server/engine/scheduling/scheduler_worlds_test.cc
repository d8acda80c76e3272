// Plans of random requests, models and owners keep their promises.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "models/runtime/model.h"
#include "tests/server/engine/scheduling/scheduler_bench.h"

namespace tvq {
namespace {

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
    for (const auto& [id, count] : RowsOf(plan)) {
      const Item& item = items_.at(id);
      ASSERT_TRUE(item.ready && item.model == plan.model);
      ASSERT_EQ(item.work.prompt_remaining, 0);
      ASSERT_LE(count, item.work.decode_rows);
      rows += count;
    }
    ASSERT_LE(rows, rows_);
    for (auto& [id, item] : items_) {
      if (!item.ready || item.model != plan.model || item.work.prompt_remaining > 0) continue;
      const bool served = RowsOf(plan).contains(id);
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
    ASSERT_EQ(PrefillOf(plan).size(), plan.prefill.size()) << "a request stands there twice";
    int64_t rows = 0;
    for (const auto& [id, count] : RowsOf(plan)) rows += count;
    ASSERT_LE(rows + fed, std::max(budget_, rows + first_chunk));
    for (const auto& [id, item] : items_) {
      if (item.ready && item.model == plan.model && item.work.prompt_remaining > 0) {
        ASSERT_GT(fed, 0) << "prompts stand still";
      }
    }
  }

  void CarryOut(const StepPlan& plan) {
    for (const auto& [id, count] : RowsOf(plan)) items_.at(id).decode_left -= count;
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

TEST(SchedulerWorldsTest, RandomWorldsKeepBudgetsStarveNobodyAndEnd) {
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
