// Allocates the memory of states, which later states may reuse or not.
#ifndef TVQ_MODELS_RUNTIME_STACK_STATE_REUSE_H_
#define TVQ_MODELS_RUNTIME_STACK_STATE_REUSE_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"

namespace tvq {

// The largest size in bytes that is reported for a state: more than any device has, and small
// enough that sums do not overflow.
inline constexpr int64_t kMostBytes = int64_t{1} << 60;

// Whether a device may keep a freed state's memory for the next state.
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
