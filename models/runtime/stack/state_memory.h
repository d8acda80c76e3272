// Memory of states.
#ifndef TVQ_MODELS_RUNTIME_STACK_STATE_MEMORY_H_
#define TVQ_MODELS_RUNTIME_STACK_STATE_MEMORY_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"

namespace tvq::transformer {

// Whether a device may keep the memory that a state leaves for the next one.
enum class StateMemory : uint8_t { kReusable, kOnce };

inline absl::StatusOr<Device::Reusable> AllocateState(Device& device, int64_t bytes,
                                                      StateMemory memory) {
  const auto size = static_cast<size_t>(bytes);
  if (memory == StateMemory::kReusable) return device.AllocateReusable(size);
  absl::StatusOr<Buffer> once = device.Allocate(size);
  if (!once.ok()) return once.status();
  return Device::Reusable{*std::move(once)};
}

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_STACK_STATE_MEMORY_H_
