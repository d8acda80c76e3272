// What a layer keeps of a session where the past is a sum of products of features: two compensated
// sums (docs/state.md).
#ifndef TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_LINEAR_PARTS_H_
#define TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_LINEAR_PARTS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/ops/attention/linear_attention.h"
#include "models/runtime/stack/layer_parts.h"

namespace tvq {

// "key_value_sum" and "key_value_carry" [G,F,V], "key_sum" and "key_carry" [G,F], all float32.
class LinearParts : public LayerParts {
 public:
  explicit LinearParts(const LinearShape& shape);

  const LinearShape& shape() const { return shape_; }
  LinearState At(const PartMemory& memory) const;

  // Carries are lost beside their sums, sums of keys' features, which are positive, not below 0 nor
  // all 0, and at position 0 everything is 0.
  absl::Status Check(size_t part, const Read& read) const override;

 private:
  absl::Status CheckKeySums(const SectionInfo& info, const float* sums) const;

  const LinearShape shape_;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_LINEAR_PARTS_H_
