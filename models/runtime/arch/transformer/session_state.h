// A session's state as the stack of layers sees it, whatever the attention keeps.
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SESSION_STATE_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SESSION_STATE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "models/runtime/state.h"

namespace tvq::transformer {

// Whether a device may keep the memory that a state leaves for the next one.
enum class StateMemory : uint8_t { kReusable, kOnce };

// INVALID_ARGUMENT unless a state may have it.
absl::Status CheckPosition(int64_t position);

absl::StatusOr<Device::Reusable> AllocateState(Device& device, int64_t bytes, StateMemory memory);

class SessionState : public State {
 public:
  int64_t position() const override { return position_; }

  // Makes the memory ready that the next `tokens` tokens are fed to. RESOURCE_EXHAUSTED where it
  // had to grow and could not.
  virtual absl::Status Extend(int64_t tokens) = 0;
  // They were fed.
  void Advance(int64_t tokens) { position_ += tokens; }
  // The last one was taken back.
  void Retreat() { --position_; }

 protected:
  int64_t position_ = 0;
};

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SESSION_STATE_H_
