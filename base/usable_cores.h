// How many threads are worth having.
#ifndef TVQ_BASE_USABLE_CORES_H_
#define TVQ_BASE_USABLE_CORES_H_

#include <string>

namespace tvq {

// The cores this process may use: affinity mask and quota of its cgroups, rounded up, at least 1.
int UsableCores();

// `cores`, or as many as the quotas of this process's cgroups allow, of version 1 (cpu.cfs_quota_us
// of each cpu.cfs_period_us) or 2 (cpu.max): the least of those of its group and all above it.
// Rounded up, at least 1. /proc and /sys are looked for below `root`, which is "" but in tests.
int CoresWithinQuota(int cores, const std::string& root);

}  // namespace tvq

#endif  // TVQ_BASE_USABLE_CORES_H_
