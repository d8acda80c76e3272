// How many bytes of decoding states this process may hold when nobody says so, and where.
#ifndef TVQ_SERVER_ENGINE_MEMORY_MEMORY_BUDGET_H_
#define TVQ_SERVER_ENGINE_MEMORY_MEMORY_BUDGET_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace tvq {

// What the system says, in bytes.
struct MemoryFacts {
  int64_t available = 0;  // of the machine: MemAvailable
  // Of the control group with the least room, where one has a limit.
  std::optional<int64_t> group_limit;
  int64_t group_used = 0;  // file pages, which can be dropped, not counted
};

// Of states: what is free, less a tenth for everything that is not counted (streams, messages,
// fragmentation), less `workspace` (what models will still allocate to compute). At least 0.
int64_t UsableBytes(const MemoryFacts& facts, int64_t workspace);

// States where they compute, and idle ones in host memory.
struct StateMemory {
  int64_t device = 0;
  int64_t host = 0;
};

// Divides the usable bytes. A number above 0 in `asked` is taken as it is. Otherwise the host gets
// a quarter, or less if the given device leaves less, and the device gets the rest. A part that is
// not given never makes the sum exceed `usable`.
StateMemory DivideMemory(int64_t usable, const StateMemory& asked);

// Reads /proc/meminfo and the control groups (version 2) of this process. The roots are parameters
// for tests. Without readable control groups there is no limit; UNAVAILABLE without meminfo.
absl::StatusOr<MemoryFacts> ReadMemoryFacts(const std::string& proc = "/proc",
                                            const std::string& cgroup = "/sys/fs/cgroup");

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_MEMORY_MEMORY_BUDGET_H_
