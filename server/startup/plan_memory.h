#ifndef TVQ_SERVER_STARTUP_PLAN_MEMORY_H_
#define TVQ_SERVER_STARTUP_PLAN_MEMORY_H_

#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/engine.h"
#include "server/engine/memory/memory_budget.h"
#include "server/startup/flags.h"

namespace tvq {

// Divides the memory that is left once the models are loaded: what the flags give, and the rest as
// DivideMemory does. Logs the outcome, and warns of flags that give more than there is.
absl::StatusOr<StateMemory> PlanMemory(const std::vector<ServedModel>& models, const Flags& flags);

}  // namespace tvq

#endif  // TVQ_SERVER_STARTUP_PLAN_MEMORY_H_
