// A norm that replaces the rows and is not added to them. RWKV has one ahead of its first block.
#ifndef TVQ_MODELS_RUNTIME_LAYERS_NORM_NORM_LAYER_H_
#define TVQ_MODELS_RUNTIME_LAYERS_NORM_NORM_LAYER_H_

#include <string>
#include <utility>

#include "models/runtime/stack/layer.h"
#include "models/runtime/stack/row_norm.h"

namespace tvq {

// Keeps nothing of a session.
class NormLayer : public Layer {
 public:
  // `prefix` is the whole name of the norm. The device must outlive the layer.
  NormLayer(std::string prefix, const RowNorm::Config& config, Device& device)
      : Layer(std::move(prefix)), norm_(config), device_(device) {}

  void Load(WeightLoader& loader) override { norm_.Load(prefix(), loader); }
  void Reserve(int64_t, WorkingMemory&) override {}
  absl::Status Prefill(const LayerState&, const LayerRows& rows) override {
    return norm_.Apply(device_, rows.x, rows.x);
  }
  absl::Status Decode(const RowStates&, const LayerRows& rows) override {
    return norm_.Apply(device_, rows.x, rows.x);
  }
  LayerRounding rounding() const override { return {}; }

 private:
  RowNorm norm_;
  Device& device_;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_NORM_NORM_LAYER_H_
