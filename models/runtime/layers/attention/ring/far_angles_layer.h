// The turns of queries that are multiplied with codewords. A code stands for keys of many
// distances, so a query is turned by a mean: over all distances from a ring's end to the beginning
// of the context, or to the longest distance that the model was trained with, each weighted by
// 1 / distance (docs/mathematics.md, Converted models). Like AnglesLayer it is a separate layer,
// ahead of those that use it.
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
  // Frequencies [R/2], in radians per position; for rings of `ring` positions. The device must
  // outlive it.
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

  // For the `n` rows of the call, once this layer has run: means of cosines and sines, [n, R].
  Matrix<const float> angles(int64_t n) const { return {angles_, {n, width()}}; }
  // For the sink, whose distance is always the length of the ring, [R].
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
  Buffer table_;  // [rows_, R], for positions from ring_ on
  Buffer sink_angles_;
  float* angles_ = nullptr;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_RING_FAR_ANGLES_LAYER_H_
