// The angles of a call's rows, by which all layers with rotary positions turn queries and keys. It
// is a separate layer ahead of them, which adds nothing to the rows and keeps nothing of a session.
#ifndef TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_ROTARY_ANGLES_LAYER_H_
#define TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_ROTARY_ANGLES_LAYER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/ops/rotary.h"
#include "models/runtime/stack/layer.h"

namespace tvq {

class AnglesLayer : public Layer {
 public:
  // Frequencies [R/2], in radians per position; `exact`: see RotaryAnglesArgs. The device must
  // outlive it.
  AnglesLayer(std::vector<float> frequencies, bool exact, Device& device)
      : Layer(""), frequencies_(std::move(frequencies)), exact_(exact), device_(device) {}

  void Load(WeightLoader& loader) override { on_device_ = loader.Upload(frequencies_); }
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

  // For the `n` rows of the call, [n, R], once this layer has run.
  Matrix<const float> angles(int64_t n) const { return {angles_, {n, width()}}; }

 private:
  int64_t width() const { return 2 * std::ssize(frequencies_); }
  absl::Status Compute(Vector<const int64_t> positions) {
    return RotaryAngles(device_, {.positions = positions,
                                  .frequencies = VectorOf(on_device_, std::ssize(frequencies_)),
                                  .out = {angles_, {positions.dim(0), width()}},
                                  .exact = exact_});
  }

  const std::vector<float> frequencies_;
  const bool exact_;
  Device& device_;
  Buffer on_device_;
  float* angles_ = nullptr;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_ROTARY_ANGLES_LAYER_H_
