// A Transformer-VQ session: per layer the accumulator by code and the window of recent positions.
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_STATE_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_STATE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device.h"
#include "kernels/ops/vq_attention.h"
#include "models/runtime/arch/transformer_vq/config.h"
#include "models/runtime/state.h"

namespace tvq::transformer_vq {

// Where the parts of a state lie in its one block of device memory.
//
// Per layer: sum and carry [G,S,V] float32, count [G,S] int64, window_code [G,W] int32 and
// window_value [G,W,V] of the state's dtype; every part starts at a multiple of 64 bytes.
class StateLayout {
 public:
  StateLayout(const VqConfig& config, DType value_dtype);

  const VqShape& shape() const { return shape_; }
  int64_t layers() const { return layers_; }
  int64_t bytes() const { return layers_ * layer_bytes_; }
  int64_t layer_bytes() const { return layer_bytes_; }
  VqState Layer(std::byte* base, int64_t layer) const;

 private:
  VqShape shape_;
  int64_t layers_;
  int64_t carry_, count_, code_, value_;  // offsets inside a layer; sum is at 0
  int64_t layer_bytes_;
};

class VqSessionState : public State {
 public:
  static absl::StatusOr<std::unique_ptr<VqSessionState>> Create(Device& device,
                                                                const StateLayout& layout);
  // In memory of layout.bytes().
  static std::unique_ptr<VqSessionState> In(Device::Reusable memory, Device& device,
                                            const StateLayout& layout);

  int64_t position() const override { return position_; }
  int64_t bytes() const override { return layout_.bytes(); }
  absl::Status CopyFrom(const State& other) override;
  absl::Status Reset() override;
  std::vector<SectionInfo> Sections() const override;
  absl::Status VisitSectionsFrom(size_t first, const SectionVisitor& visit) const override;
  absl::Status Load(int64_t position, const SectionReader& read) override;
  absl::Status Synthesize(int64_t position, uint64_t seed) override;

  // To be called before Layer, which gives the memory that a token is fed to.
  absl::Status Write();
  VqState Layer(int64_t layer) const;
  void Advance(int64_t tokens) { position_ += tokens; }

 private:
  VqSessionState(Device& device, const StateLayout& layout, Device::Reusable memory)
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
  int64_t position_ = 0;
};

}  // namespace tvq::transformer_vq

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_STATE_H_
