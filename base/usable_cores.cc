#include "base/usable_cores.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tvq {
namespace {

// `quota` of every `period`, in cores, where it is fewer than `cores`.
int Within(double quota, double period, int cores) {
  if (quota <= 0 || period <= 0) return cores;
  return static_cast<int>(std::min<double>(cores, std::ceil(quota / period)));
}

// The quota of one folder, of either version's files; `cores` where there is none.
int QuotaOf(const std::string& folder, int cores) {
  double quota = 0;
  double period = 0;
  if (std::ifstream both(folder + "/cpu.max"); both >> quota >> period) {
    return Within(quota, period, cores);
  }
  std::ifstream quota_file(folder + "/cpu.cfs_quota_us");
  std::ifstream period_file(folder + "/cpu.cfs_period_us");
  if (!(quota_file >> quota) || !(period_file >> period)) return cores;
  return Within(quota, period, cores);
}

// The least of a group's folder and those above it, up to that of `hierarchy` itself.
int QuotaAbove(const std::string& hierarchy, std::string group, int cores) {
  while (!group.empty()) {
    cores = QuotaOf(hierarchy + group, cores);
    const size_t slash = group.rfind('/');
    group.resize(slash == std::string::npos ? 0 : slash);
  }
  return QuotaOf(hierarchy, cores);
}

}  // namespace

int CoresWithinQuota(int cores, const std::string& root) {
  const std::string mounted = root + "/sys/fs/cgroup";
  // A container sees its own group as the root, whatever its name; elsewhere every group above
  // counts too.
  cores = QuotaAbove(mounted, "", cores);
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // hierarchy:controllers:group, no controllers being version 2.
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    if (fields[1].empty()) {
      cores = QuotaAbove(mounted, fields[2], cores);
      continue;
    }
    const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
    if (std::find(controllers.begin(), controllers.end(), "cpu") == controllers.end()) continue;
    // Mounted by their names together, and mostly linked by each.
    for (const std::string& name : {fields[1], std::string("cpu")}) {
      cores = QuotaAbove(absl::StrCat(mounted, "/", name), fields[2], cores);
    }
  }
  return std::max(1, cores);
}

int UsableCores() {
  int cores = 1;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cores = CPU_COUNT(&set);
  return CoresWithinQuota(cores, "");
}

}  // namespace tvq
