// What a recurrent layer keeps of a session: its last inputs, and a matrix for each head
// (docs/state.md).
#ifndef TVQ_MODELS_RUNTIME_LAYERS_RECURRENT_RECURRENT_PARTS_H_
#define TVQ_MODELS_RUNTIME_LAYERS_RECURRENT_RECURRENT_PARTS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/ops/recurrent/recurrence.h"
#include "models/runtime/stack/layer_parts.h"

namespace tvq {

struct RecurrentShape {
  int64_t inputs = 0;    // R
  int64_t channels = 0;  // C
  int64_t heads = 0;     // H; 0: no matrices
  int64_t key = 0;       // K
  int64_t value = 0;     // V

  int64_t input_numbers() const { return inputs * channels; }
  int64_t matrix_numbers() const { return heads * key * value; }
};

// "inputs" [R, C] and, if there are heads, "matrix" [H, K, V], all float32.
class RecurrentParts : public LayerParts {
 public:
  explicit RecurrentParts(const RecurrentShape& shape);

  const RecurrentShape& shape() const { return shape_; }
  RecurrentState At(const PartMemory& memory) const;

  // Checks that inputs ahead of the session's first are 0, and matrices at position 0.
  absl::Status Check(size_t part, const Read& read) const override;

 private:
  const RecurrentShape shape_;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_RECURRENT_RECURRENT_PARTS_H_
