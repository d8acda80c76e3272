#include "server/engine/memory/memory_budget.h"

#include <algorithm>
#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

// The number after `key` in a file of "key number" lines.
std::optional<int64_t> Field(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    int64_t value = 0;
    if (word == key && file >> value) return value;
  }
  return std::nullopt;
}

// A file that is one number; nothing for "max" or no file.
std::optional<int64_t> Number(const std::string& path) {
  std::ifstream file(path);
  int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

// The path of this process in the unified hierarchy, "" for its root.
std::string GroupPath(const std::string& proc) {
  std::ifstream file(proc + "/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("0::/")) return line == "0::/" ? "" : line.substr(3);
  }
  return "";
}

int64_t Used(const std::string& group) {
  const std::string stat = group + "/memory.stat";
  const int64_t files =
      Field(stat, "active_file").value_or(0) + Field(stat, "inactive_file").value_or(0);
  return std::max<int64_t>(0, Number(group + "/memory.current").value_or(0) - files);
}

}  // namespace

int64_t UsableBytes(const MemoryFacts& facts, int64_t workspace) {
  int64_t free = facts.available;
  if (facts.group_limit) free = std::min(free, *facts.group_limit - facts.group_used);
  return std::max<int64_t>(0, free / 10 * 9 - workspace);
}

StateMemory DivideMemory(int64_t usable, const StateMemory& asked) {
  StateMemory memory = asked;
  if (memory.host == 0) {
    memory.host = std::min(usable / 4, std::max<int64_t>(0, usable - asked.device));
  }
  if (memory.device == 0) memory.device = std::max<int64_t>(0, usable - memory.host);
  return memory;
}

absl::StatusOr<MemoryFacts> ReadMemoryFacts(const std::string& proc, const std::string& cgroup) {
  const std::optional<int64_t> available_kib = Field(proc + "/meminfo", "MemAvailable:");
  if (!available_kib) {
    return absl::UnavailableError(absl::StrCat(
        proc, "/meminfo: has no MemAvailable; give the state budget as a number of bytes"));
  }
  MemoryFacts facts{.available = *available_kib * 1024};
  // A limit may be set on any ancestor; in a container the path is that of its own root.
  for (std::string path = GroupPath(proc);; path.resize(path.rfind('/'))) {
    const std::string group = cgroup + path;
    if (const std::optional<int64_t> limit = Number(group + "/memory.max")) {
      const int64_t used = Used(group);
      if (!facts.group_limit || *limit - used < *facts.group_limit - facts.group_used) {
        facts.group_limit = limit;
        facts.group_used = used;
      }
    }
    if (path.empty()) break;
  }
  return facts;
}

}  // namespace tvq
