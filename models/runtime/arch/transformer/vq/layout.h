// Where the parts of a Transformer-VQ's state lie in a layer's memory: the accumulator by code and
// the window of recent positions.
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_LAYOUT_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "kernels/ops/attention/vq_attention.h"
#include "models/runtime/arch/transformer/config.h"
#include "models/runtime/arch/transformer/state_layout.h"

namespace tvq::transformer {

// Per layer: sum and carry [G,S,V] float32, count [G,S] int64, window_code [G,W] int32 and
// window_value [G,W,V] of the state's dtype; then, where decode reads it, the read copy: mean
// [G,S,V] int8, its scales [G,S,V/64] float32, recent [G,W,V] int8 and its scales. Every part
// starts at a multiple of 64 bytes. The read copy has no sections: it is made from the others.
class VqLayout : public StateLayout {
 public:
  VqLayout(const TransformerConfig& config, DType value_dtype, VqRead read = VqRead::kExact);

  const VqShape& shape() const { return shape_; }
  VqState At(std::byte* layer_memory) const;

  int64_t layer_bytes() const override { return layer_bytes_; }
  std::vector<SectionInfo> Sections(int64_t layer, int64_t position) const override;
  absl::Status Visit(int64_t layer, int64_t position, std::byte* host, int64_t skipped,
                     const State::SectionVisitor& visit) const override;
  absl::Status Load(int64_t layer, int64_t position, const State::SectionReader& read,
                    std::byte* host) const override;
  void Synthesize(int64_t position, SyntheticValues& values, std::byte* host) const override;

 private:
  void BuildReadCopy(const VqState& host) const;

  VqShape shape_;
  // Offsets inside a layer; sum is at 0.
  int64_t carry_, count_, code_, value_;
  int64_t mean_ = 0, mean_scale_ = 0, recent_ = 0, recent_scale_ = 0;
  int64_t layer_bytes_;
};

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_LAYOUT_H_
