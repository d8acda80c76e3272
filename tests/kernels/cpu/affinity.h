// The cores on which a thread may run.
#ifndef TVQ_TESTS_KERNELS_CPU_AFFINITY_H_
#define TVQ_TESTS_KERNELS_CPU_AFFINITY_H_

#include <sched.h>
#include <sys/types.h>

#include <vector>

namespace tvq {

// Of the thread `id`, 0 being the one that calls.
inline std::vector<int> Affinity(pid_t id = 0) {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(id, sizeof(set), &set);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

inline void SetAffinity(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

}  // namespace tvq

#endif  // TVQ_TESTS_KERNELS_CPU_AFFINITY_H_
