#include "server/startup/plan_memory.h"

#include <spdlog/spdlog.h>

#include "server/startup/readable_bytes.h"

namespace tvq {

namespace {

// A device with memory of its own leaves the machine's to idle states; the engine finds out what it
// has for states when all else is there.
absl::StatusOr<StateMemory> PlanBesideDevice(const StateMemory& asked,
                                             const absl::StatusOr<MemoryFacts>& facts) {
  StateMemory memory = asked;
  if (asked.host > 0) return memory;
  if (!facts.ok()) return facts.status();
  memory.host = UsableBytes(*facts, /*workspace=*/0);
  spdlog::info("memory: {} of the machine's for idle states", ReadableBytes(memory.host));
  return memory;
}

}  // namespace

absl::StatusOr<StateMemory> PlanMemory(const std::vector<ServedModel>& models, const Flags& flags) {
  const StateMemory asked{.device = flags.engine.state_memory_bytes,
                          .host = flags.sessions.options.host_bytes};
  const auto facts = ReadMemoryFacts();
  if (models[0].model->FreeDeviceMemory()) return PlanBesideDevice(asked, facts);
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
