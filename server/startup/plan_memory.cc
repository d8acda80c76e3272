#include "server/startup/plan_memory.h"

#include <spdlog/spdlog.h>

#include "server/startup/readable_bytes.h"

namespace tvq {

absl::StatusOr<StateMemory> PlanMemory(const std::vector<ServedModel>& models, const Flags& flags) {
  const StateMemory asked{.device = flags.engine.state_memory_bytes,
                          .host = flags.sessions.options.host_bytes};
  const auto facts = ReadMemoryFacts();
  if (!facts.ok()) {
    if (asked.device > 0 && asked.host > 0) return asked;
    return facts.status();
  }
  const int64_t usable = UsableBytes(*facts, WorkspaceBytes(models, flags.engine.max_num_seqs));
  const StateMemory memory = DivideMemory(usable, asked);
  spdlog::info(
      "memory: {} for states are free; {} where they compute, {} for idle ones in host memory, {} "
      "of it for prompts' beginnings",
      ReadableBytes(usable), ReadableBytes(memory.device), ReadableBytes(memory.host),
      ReadableBytes(flags.sessions.options.prefix_bytes));
  if (memory.device + memory.host > usable) {
    spdlog::warn("memory: --state-memory-bytes and --session-host-bytes give more than is free");
  }
  return memory;
}

}  // namespace tvq
