// A layer whose state is its last inputs, and a matrix for each head
// (kernels/ops/recurrent/recurrence.h). A prompt and single tokens are computed alike.
#ifndef TVQ_MODELS_RUNTIME_LAYERS_RECURRENT_RECURRENT_LAYER_H_
#define TVQ_MODELS_RUNTIME_LAYERS_RECURRENT_RECURRENT_LAYER_H_

#include <cstdint>
#include <string>

#include "kernels/ops/recurrent/recurrence.h"
#include "models/runtime/layers/recurrent/recurrent_parts.h"
#include "models/runtime/stack/layer.h"

namespace tvq {

class RecurrentLayer : public Layer, private LayerUndo {
 public:
  // A call may have up to `draft_rows` drafts, on devices that compute in host memory: each has
  // room for a copy of the layer's state. The device must outlive the layer.
  RecurrentLayer(std::string prefix, const RecurrentShape& shape, int64_t draft_rows,
                 Device& device);

  void Reserve(int64_t rows, WorkingMemory& memory) final;
  const LayerParts& parts() const final { return parts_; }
  size_t view_bytes() const final { return sizeof(RecurrentState); }
  void View(const PartMemory& memory, std::byte* view) const final;
  absl::Status Prefill(const LayerState& state, const LayerRows& rows) final {
    return Compute({.state = parts_.At(state.memory)}, rows);
  }
  absl::Status Decode(const RowStates& states, const LayerRows& rows) final {
    return Compute({.states = states.As<RecurrentState>()}, rows);
  }
  LayerUndo* undo() final { return draft_rows_ > 0 ? this : nullptr; }

 protected:
  virtual void ReserveRows(int64_t rows, WorkingMemory& memory) = 0;
  virtual absl::Status Compute(const RecurrentRows& sessions, const LayerRows& rows) = 0;

  // y [n, out] = activation(x W^T + bias), or added to y.
  struct Product {
    Matrix<const float> x;
    const LinearWeight& weight;
    Matrix<float> y;
    Vector<const float> bias = {};
    Activation activation = Activation::kNone;
    bool accumulate = false;
  };
  absl::Status Multiply(const Product& product, const LayerRows& rows);

  Device& device_;

 private:
  int64_t rows() const override { return draft_rows_; }
  void ViewDraft(int64_t draft, std::byte* view) const override;
  absl::Status TakeBack(const PartMemory& memory, int64_t position, int64_t draft) override;
  // Where a draft's step copies the state that it finds.
  RecurrentState Kept(int64_t draft) const;

  const RecurrentParts parts_;
  const int64_t draft_rows_;
  float *kept_matrices_ = nullptr, *kept_inputs_ = nullptr;  // for each draft
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_RECURRENT_RECURRENT_LAYER_H_
