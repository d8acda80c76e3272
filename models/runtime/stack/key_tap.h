// Shows the codes of all layers to a tap, which may replace them.
#ifndef TVQ_MODELS_RUNTIME_STACK_KEY_TAP_H_
#define TVQ_MODELS_RUNTIME_STACK_KEY_TAP_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "kernels/device/device.h"
#include "kernels/device/tensor.h"
#include "models/runtime/model.h"

namespace tvq {

class KeyTap : public QuantizedKeys {
 public:
  void SetTap(Tap tap) override { tap_ = std::move(tap); }
  // Whether there is a tap: the host then takes part in every step, which cannot be recorded.
  bool set() const { return tap_ != nullptr; }

  // Copies codes [rows, kv heads] from the device to the tap, if there is one, and copies what the
  // tap leaves in them back to the device.
  absl::Status Show(Device& device, int64_t layer, Matrix<int32_t> codes) const {
    if (!set()) return absl::OkStatus();
    std::vector<int32_t> host(static_cast<size_t>(codes.size()));
    const size_t bytes = host.size() * sizeof(int32_t);
    if (absl::Status s = device.Receive(host.data(), codes.data, bytes); !s.ok()) return s;
    tap_(layer, {host.data(), codes.shape});
    return device.Send(codes.data, host.data(), bytes);
  }

 private:
  Tap tap_;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STACK_KEY_TAP_H_
