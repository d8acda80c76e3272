// What tests of the scheduler have in common.
#ifndef TVQ_TESTS_SERVER_ENGINE_SCHEDULING_SCHEDULER_BENCH_H_
#define TVQ_TESTS_SERVER_ENGINE_SCHEDULING_SCHEDULER_BENCH_H_

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "server/engine/scheduling/scheduler.h"

namespace tvq {

// Rows or tokens, of requests.
using Counts = std::map<uint64_t, int64_t>;

// A scheduler, and the requests that are not ready. Ids count from 0.
class SchedulerBench {
 public:
  explicit SchedulerBench(const std::vector<ModelShare>& models, int64_t tokens = 512,
                          int64_t rows = 64)
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

inline SchedulerBench OneModel(int64_t budget, int64_t chunk = 8) {
  return SchedulerBench({{chunk, 1}}, budget);
}

inline Counts RowsOf(const StepPlan& plan) {
  Counts rows;
  for (const DecodeRows& d : plan.decode) rows[d.request] += d.rows;
  return rows;
}

inline Counts PrefillOf(const StepPlan& plan) {
  Counts tokens;
  for (const PrefillAdvance& a : plan.prefill) tokens[a.request] += a.tokens;
  return tokens;
}

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_ENGINE_SCHEDULING_SCHEDULER_BENCH_H_
