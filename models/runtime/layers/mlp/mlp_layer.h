// The MLP of a standard block (docs/mathematics.md): x += gelu(norm(x) Wu + bu) Wd + bd.
#ifndef TVQ_MODELS_RUNTIME_LAYERS_MLP_MLP_LAYER_H_
#define TVQ_MODELS_RUNTIME_LAYERS_MLP_MLP_LAYER_H_

#include <cstdint>
#include <string>
#include <utility>

#include "kernels/ops/linear.h"
#include "models/runtime/stack/layer.h"

namespace tvq {

// Keeps nothing of a session.
class MlpLayer : public Layer {
 public:
  // `width`: D. `inner`: width F of the hidden layer. The device must outlive it.
  MlpLayer(std::string prefix, int64_t width, int64_t inner, Device& device)
      : Layer(std::move(prefix)), width_(width), inner_(inner), device_(device) {}

  void Load(WeightLoader& loader) override;
  void Reserve(int64_t rows, WorkingMemory& memory) override;
  absl::Status Prefill(const LayerState&, const LayerRows& rows) override { return Compute(rows); }
  absl::Status Decode(const RowStates&, const LayerRows& rows) override { return Compute(rows); }
  absl::Status Compute(const LayerRows& rows);
  LayerRounding rounding() const override { return {.products = 2}; }

 private:
  const int64_t width_, inner_;
  Device& device_;
  Buffer norm_gain_, norm_bias_;  // [D]
  LinearWeight up_;               // [F, D]
  Buffer up_bias_;                // [F]
  LinearWeight down_;             // [D, F]
  Buffer down_bias_;              // [D]
  float *normed_ = nullptr, *inside_ = nullptr;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_MLP_MLP_LAYER_H_
