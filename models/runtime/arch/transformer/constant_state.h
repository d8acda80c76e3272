// A session of a kind whose states never grow: one block of device memory, a layer after the other.
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_CONSTANT_STATE_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_CONSTANT_STATE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "models/runtime/arch/transformer/session_state.h"
#include "models/runtime/arch/transformer/state_layout.h"

namespace tvq::transformer {

class ConstantState : public SessionState {
 public:
  // Device and layout must outlive it.
  static absl::StatusOr<std::unique_ptr<ConstantState>> Create(
      Device& device, const StateLayout& layout, StateMemory memory = StateMemory::kReusable);

  int64_t bytes() const override { return layout_.bytes(); }
  absl::Status CopyFrom(const State& other) override;
  absl::Status Reset() override;
  std::vector<SectionInfo> Sections() const override;
  absl::Status VisitSectionsFrom(size_t first, const SectionVisitor& visit) const override;
  absl::Status Load(int64_t position, const SectionReader& read) override;
  absl::Status Synthesize(int64_t position, uint64_t seed) override;
  absl::Status Extend(int64_t tokens) override;

  // Device memory of a layer, layout.layer_bytes(). Not before Extend: it would show another
  // session's past.
  std::byte* Layer(int64_t layer) const;

 private:
  ConstantState(Device& device, const StateLayout& layout, Device::Reusable memory)
      : device_(device),
        layout_(layout),
        memory_(std::move(memory.memory)),
        written_(memory.zeroed) {}

  std::byte* LayerMemory(int64_t layer) const {
    return memory_.as<std::byte>() + layer * layout_.layer_bytes();
  }

  Device& device_;
  const StateLayout& layout_;
  Buffer memory_;
  // Before, the memory is as some state left it, nothing reads it, and this state is all zero. Most
  // states begin as copies and never need the zeros.
  bool written_;
};

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_CONSTANT_STATE_H_
