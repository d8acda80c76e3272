// Tasks of one op on the device's threads, unless they are too small to share.
#ifndef TVQ_KERNELS_CPU_PARALLEL_H_
#define TVQ_KERNELS_CPU_PARALLEL_H_

#include <algorithm>

#include "kernels/cpu/cpu_device.h"

namespace tvq {

// Handing tasks to another core takes a few microseconds: below this many bytes or multiply-adds a
// core is done sooner alone.
inline constexpr int64_t kSharedWork = 1 << 16;

// Runs task(0) .. task(tasks - 1). `work`: bytes read or multiply-adds of all tasks together.
template <typename Task>
void RunTasks(CpuDevice& cpu, int64_t tasks, int64_t work, const Task& task) {
  if (work >= kSharedWork) {
    cpu.pool().ParallelFor(tasks, task);
    return;
  }
  for (int64_t i = 0; i < tasks; ++i) task(i);
}

// Stretches of tasks that a thread takes at a time, for each thread: few enough that a task's
// successor is mostly its thread's, enough that a thread on a busy core takes fewer.
inline constexpr int64_t kStretches = 8;

// As RunTasks, of task(i, more): task i + 1 runs on the same thread next where `more` says so, and
// what it will read is worth fetching.
template <typename Task>
void RunStretches(CpuDevice& cpu, int64_t tasks, int64_t work, const Task& task) {
  const int64_t stretches = std::min(tasks, kStretches * cpu.pool().threads());
  RunTasks(cpu, stretches, work, [&](int64_t stretch) {
    const int64_t end = (stretch + 1) * tasks / stretches;
    for (int64_t i = stretch * tasks / stretches; i < end; ++i) task(i, i + 1 < end);
  });
}

// Columns of a task at most: 3 KB of a row of float32, which the hardware follows well, and 24 KB
// for a group of rows, which stay in the first cache beside the sums.
inline constexpr int64_t kDecodeColumns = 768;

// `most`, or narrower where there would be fewer tasks than threads. Columns have nothing to do
// with one another: the width changes no bits.
inline int64_t TaskColumns(int64_t units, int64_t values, int threads,
                           int64_t most = kDecodeColumns) {
  int64_t columns = most;
  while (columns > 64 && units * ((values + columns - 1) / columns) < threads) columns /= 2;
  return columns;
}

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_PARALLEL_H_
