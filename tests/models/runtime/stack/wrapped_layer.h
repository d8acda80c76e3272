// A layer that does what another does.
#ifndef TVQ_TESTS_MODELS_RUNTIME_STACK_WRAPPED_LAYER_H_
#define TVQ_TESTS_MODELS_RUNTIME_STACK_WRAPPED_LAYER_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "models/runtime/stack/layer.h"

namespace tvq {

class WrappedLayer : public Layer {
 public:
  explicit WrappedLayer(std::unique_ptr<Layer> layer)
      : Layer(layer->prefix()), layer_(std::move(layer)) {}

  void Load(WeightLoader& loader) override { layer_->Load(loader); }
  void Reserve(int64_t rows, WorkingMemory& memory) override { layer_->Reserve(rows, memory); }
  absl::Status CheckDevice() override { return layer_->CheckDevice(); }
  const LayerParts& parts() const override { return layer_->parts(); }
  void Place(const StateLayout::Layer& where) override { layer_->Place(where); }
  size_t view_bytes() const override { return layer_->view_bytes(); }
  void View(const PartMemory& memory, std::byte* view) const override {
    layer_->View(memory, view);
  }
  absl::Status Prefill(const LayerState& state, const LayerRows& rows) override {
    return layer_->Prefill(state, rows);
  }
  absl::Status Decode(const RowStates& states, const LayerRows& rows) override {
    return layer_->Decode(states, rows);
  }
  LayerRounding rounding() const override { return layer_->rounding(); }
  int64_t cached_numbers() const override { return layer_->cached_numbers(); }
  LayerUndo* undo() override { return layer_->undo(); }

 private:
  const std::unique_ptr<Layer> layer_;
};

}  // namespace tvq

#endif  // TVQ_TESTS_MODELS_RUNTIME_STACK_WRAPPED_LAYER_H_
