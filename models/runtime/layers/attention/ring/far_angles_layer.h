// What queries are turned by ahead of codes that stand for keys of many distances: the mean of the
// turns from a ring's end on up to the context's beginning, or to the longest that the model was
// trained with, each weighted by 1 / distance (docs/mathematics.md, Converted models). A layer of
// its own ahead of those that use it, as AnglesLayer is.
#ifndef TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_RING_FAR_ANGLES_LAYER_H_
#define TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_RING_FAR_ANGLES_LAYER_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/ops/rotary.h"
#include "models/runtime/stack/layer.h"

namespace tvq {

class FarAnglesLayer : public Layer {
 public:
  // Frequencies [R/2], angle per position; of rings of `ring` positions. The device must outlive
  // it.
  FarAnglesLayer(std::vector<float> frequencies, int64_t ring, int64_t trained_context,
                 Device& device)
      : Layer(""),
        frequencies_(std::move(frequencies)),
        ring_(ring),
        rows_(std::max<int64_t>(1, trained_context - ring)),
        device_(device) {}

  void Load(WeightLoader& loader) override;
  void Reserve(int64_t rows, WorkingMemory& memory) override {
    memory.Keep(&angles_, rows * width());
  }
  absl::Status Prefill(const LayerState& state, const LayerRows&) override {
    return Compute(state.positions);
  }
  absl::Status Decode(const RowStates& states, const LayerRows&) override {
    return Compute(states.positions);
  }
  LayerRounding rounding() const override { return {}; }

  // Of the `n` rows of the call, [n, R], once it has computed them: means of cosines and sines.
  Matrix<const float> angles(int64_t n) const { return {angles_, {n, width()}}; }
  // Of the sink, which stays as far away as the ring is long, [R].
  Vector<const float> sink_angles() const { return VectorOf(sink_angles_, width()); }

 private:
  int64_t width() const { return 2 * std::ssize(frequencies_); }
  absl::Status Compute(Vector<const int64_t> positions) {
    return PositionRows(device_, {.positions = positions,
                                  .first = ring_,
                                  .table = {table_.as<const float>(), {rows_, width()}},
                                  .out = {angles_, {positions.dim(0), width()}}});
  }

  const std::vector<float> frequencies_;
  const int64_t ring_, rows_;
  Device& device_;
  Buffer table_;  // [rows_, R], of positions ring_ on
  Buffer sink_angles_;
  float* angles_ = nullptr;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_RING_FAR_ANGLES_LAYER_H_
