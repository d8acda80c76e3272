// Tasks of one op on the device's threads, unless they are too small to share.
#ifndef TVQ_KERNELS_CPU_PARALLEL_H_
#define TVQ_KERNELS_CPU_PARALLEL_H_

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

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_PARALLEL_H_
