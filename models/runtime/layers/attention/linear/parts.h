// What a layer of linear attention keeps of a session: two compensated sums (docs/state.md).
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

  // Checks that each carry is lost when it is added to its sum in float32; that sums of keys'
  // features, which are positive, are not below 0, and not all 0 for a head; and that everything is
  // 0 at position 0.
  absl::Status Check(size_t part, const Read& read) const override;

 private:
  absl::Status CheckKeySums(const SectionInfo& info, const float* sums) const;

  const LinearShape shape_;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_LINEAR_PARTS_H_
