// The rows of a call, session by session.
#ifndef TVQ_KERNELS_CPU_RECURRENT_RUNS_H_
#define TVQ_KERNELS_CPU_RECURRENT_RUNS_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/parallel.h"
#include "kernels/ops/recurrent/recurrence.h"

namespace tvq {

// How many runs VisitRun can be asked for: runs are independent of one another.
inline int64_t Runs(const RecurrentRows& sessions, int64_t rows) {
  return sessions.prefill() ? 1 : rows;
}

// Calls visit(state, first, count) for the rows of one session, in order: in prefill once for all
// rows, in decode for each row. In decode it does nothing unless row `run` is its session's first.
template <typename Visit>
void VisitRun(const RecurrentRows& sessions, int64_t run, int64_t rows, const Visit& visit) {
  if (sessions.prefill()) return visit(sessions.state, 0, rows);
  const RecurrentState* const states = sessions.states.data;
  const float* const inputs = states[run].inputs;
  if (run > 0 && inputs != nullptr && states[run - 1].inputs == inputs) return;
  visit(states[run], run, 1);
  if (inputs == nullptr) return;
  for (int64_t n = run + 1; n < rows && states[n].inputs == inputs; ++n) visit(states[n], n, 1);
}

// task(run, head) for every head `out` [N, H, V] has in every run; `key` is the recurrence's K.
template <typename Task>
void RunHeads(Device& device, const RecurrentRows& sessions, Tensor<float, 3> out, int64_t key,
              const Task& task) {
  const int64_t heads = out.dim(1);
  RunTasks(AsCpu(device), Runs(sessions, out.dim(0)) * heads, out.size() * key,
           [&](int64_t i) { task(i / heads, i % heads); });
}

// Copies `count` numbers to `kept`, if there is a place.
inline void Keep(const float* numbers, int64_t count, float* kept) {
  if (kept != nullptr) std::copy_n(numbers, count, kept);
}

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_RECURRENT_RUNS_H_
