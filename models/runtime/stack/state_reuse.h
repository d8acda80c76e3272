// Memory of states, and whether others may have it after them.
#ifndef TVQ_MODELS_RUNTIME_STACK_STATE_REUSE_H_
#define TVQ_MODELS_RUNTIME_STACK_STATE_REUSE_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"

namespace tvq {

// A state that would take more is said to take so many: more than any device has, and far enough
// from the largest integer.
inline constexpr int64_t kMostBytes = int64_t{1} << 60;

// Whether a device may keep the memory that a state leaves for the next one.
enum class StateReuse : uint8_t { kReusable, kOnce };

inline absl::StatusOr<Device::Reusable> AllocateState(Device& device, int64_t bytes,
                                                      StateReuse reuse) {
  const auto size = static_cast<size_t>(bytes);
  if (reuse == StateReuse::kReusable) return device.AllocateReusable(size);
  absl::StatusOr<Buffer> once = device.Allocate(size);
  if (!once.ok()) return once.status();
  return Device::Reusable{*std::move(once)};
}

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STACK_STATE_REUSE_H_
