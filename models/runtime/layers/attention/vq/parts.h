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
// "win_value" [G,W,V] of the shape's dtype, of which W is a ring; where keys are kept, too,
// "win_key" [G,W,K], likewise, and "sink_key" [G,K] float32; then, where decode reads it, the
// read copy, which is derived: mean [G,S,V] int8, its scales [G,S,V/64] float32, recent [G,W,V]
// int8 and its scales.
class VqParts : public LayerParts {
 public:
  explicit VqParts(const VqShape& shape);

  const VqShape& shape() const { return shape_; }
  VqState At(const PartMemory& memory) const;

  // Codes are in [0, S), counts not negative and, for each key/value head, as many in all as
  // positions have retired, rows that no position has retired to zero, and carries lost beside
  // their sums. Where keys are kept the last code is that of position 0 and of no other. These are
  // the invariants that the ops keep and rely on.
  absl::Status Check(size_t part, const Read& read) const override;
  void Derive(const PartMemory& memory) const override;

 private:
  const VqShape shape_;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_VQ_PARTS_H_
