// Tasks of one op on the device's threads, unless they are too small to share.
#ifndef TVQ_KERNELS_CPU_PARALLEL_H_
#define TVQ_KERNELS_CPU_PARALLEL_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/cpu_device.h"

namespace tvq {

// Handing tasks to another core takes a few microseconds: with fewer bytes or multiply-adds than
// this, one core alone is done sooner.
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

// The most columns of a task: 3 KB of a row of float32, which hardware prefetchers follow well, and
// 24 KB for a group of rows, which stay in the L1 cache beside the sums.
inline constexpr int64_t kDecodeColumns = 768;

// Columns of a task, a multiple of kColumnStep, where each of `units` has `values` columns. They
// are cut into equal tiles of at most `most` columns, into narrower ones where there would be fewer
// tasks than threads. Columns are computed independently of one another, so the width changes no
// bits.
inline constexpr int64_t kColumnStep = 64;
inline int64_t TaskColumns(int64_t units, int64_t values, int threads,
                           int64_t most = kDecodeColumns) {
  int64_t tiles = (values + most - 1) / most;
  while (units * tiles < threads && values > kColumnStep * tiles) tiles *= 2;
  const int64_t columns = (values + tiles - 1) / tiles;
  return (columns + kColumnStep - 1) / kColumnStep * kColumnStep;
}

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_PARALLEL_H_
