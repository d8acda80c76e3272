// Where the parts of a state lie in a layer's memory where the past is a sum of products of
// features: two compensated sums.
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_LINEAR_LAYOUT_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_LINEAR_LAYOUT_H_

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/ops/attention/linear_attention.h"
#include "models/runtime/arch/transformer/config.h"
#include "models/runtime/arch/transformer/state_layout.h"

namespace tvq::transformer {

// Per layer, all float32: key_value_sum and key_value_carry [G,F,V], key_sum and key_carry [G,F];
// every part starts at a multiple of 64 bytes. They are the sections, in this order and as they
// lie.
class LinearLayout : public StateLayout {
 public:
  LinearLayout(const TransformerConfig& config, int64_t features);

  const LinearShape& shape() const { return shape_; }
  LinearState At(std::byte* layer_memory) const;

  int64_t layer_bytes() const override { return layer_bytes_; }
  std::vector<SectionInfo> Sections(int64_t layer, int64_t position) const override;
  absl::Status Visit(int64_t layer, int64_t position, std::byte* host, int64_t skipped,
                     const State::SectionVisitor& visit) const override;
  // Refuses what no tokens can have left: values that are not finite, carries that their sum would
  // hold, sums of keys' features, which are positive, below 0 or all 0, and anything but 0 at
  // position 0.
  absl::Status Load(int64_t layer, int64_t position, const State::SectionReader& read,
                    std::byte* host) const override;
  void Synthesize(int64_t position, SyntheticValues& values, std::byte* host) const override;

 private:
  static constexpr size_t kParts = 4;
  static std::array<float*, kParts> Parts(const LinearState& state);
  absl::Status CheckPart(size_t part, const SectionInfo& info, int64_t position,
                         const float* values) const;
  absl::Status CheckKeySums(const SectionInfo& info, const float* sums) const;

  LinearShape shape_;
  int64_t carry_, key_sum_, key_carry_;  // offsets inside a layer; key_value_sum is at 0
  int64_t layer_bytes_;
};

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_LINEAR_LAYOUT_H_
