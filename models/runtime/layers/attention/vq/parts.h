// What a layer of a Transformer-VQ keeps of a session (docs/state.md): the accumulator by code and
// the window of recent positions.
#ifndef TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_VQ_PARTS_H_
#define TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_VQ_PARTS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/ops/attention/vq_attention.h"
#include "models/runtime/stack/layer_parts.h"

namespace tvq {

// "acc_sum" and "acc_carry" [G,S,V] float32, "acc_count" [G,S] int64, "win_code" [G,W] int32 and
// "win_value" [G,W,V] of the shape's dtype; the last two are rings of W positions. If keys are
// kept: also "win_key" [G,W,K], a ring of the same dtype, and "sink_key" [G,K] float32. If decode
// reads an int8 copy: also that copy, which is derived: mean [G,S,V] int8, its scales [G,S,V/64]
// float32, recent [G,W,V] int8 and its scales.
class VqParts : public LayerParts {
 public:
  explicit VqParts(const VqShape& shape);

  const VqShape& shape() const { return shape_; }
  VqState At(const PartMemory& memory) const;

  // Checks the invariants that the ops keep and rely on. Codes are in [0, S). Counts are not
  // negative, and those of a key/value head add up to the number of retired positions. Rows to
  // which no position has retired are 0. A carry is lost when it is added to its sum in float32. If
  // keys are kept, position 0 has the last code, and no other position has it.
  absl::Status Check(size_t part, const Read& read) const override;
  void Derive(const PartMemory& memory) const override;

 private:
  const VqShape shape_;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_VQ_PARTS_H_
