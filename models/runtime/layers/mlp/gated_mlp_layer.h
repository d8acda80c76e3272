// A gated MLP (Shazeer 2020, GLU variants improve transformers: SwiGLU):
// x += (silu(n Wg + bg) * (n Wu + bu)) Wd + bd with n = rms(x) * gain; biases only if the model has
// them.
#ifndef TVQ_MODELS_RUNTIME_LAYERS_MLP_GATED_MLP_LAYER_H_
#define TVQ_MODELS_RUNTIME_LAYERS_MLP_GATED_MLP_LAYER_H_

#include <cstdint>
#include <string>
#include <utility>

#include "kernels/ops/linear.h"
#include "models/runtime/stack/layer.h"
#include "models/runtime/stack/row_norm.h"

namespace tvq {

// Keeps nothing of a session.
class GatedMlpLayer : public Layer {
 public:
  struct Config {
    int64_t width = 0;  // D
    int64_t inner = 0;  // F
    float epsilon = 0;  // of the norm
    bool biases = false;
    float gain_offset = 0;  // of the norm
  };

  // The device must outlive it.
  GatedMlpLayer(std::string prefix, const Config& config, Device& device)
      : Layer(std::move(prefix)),
        config_(config),
        device_(device),
        norm_({.norm = Norm::kRms,
               .width = config.width,
               .epsilon = config.epsilon,
               .gain_offset = config.gain_offset}) {}

  void Load(WeightLoader& loader) override;
  void Reserve(int64_t rows, WorkingMemory& memory) override;
  absl::Status Prefill(const LayerState&, const LayerRows& rows) override { return Compute(rows); }
  absl::Status Decode(const RowStates&, const LayerRows& rows) override { return Compute(rows); }
  LayerRounding rounding() const override { return {.products = 2}; }

 private:
  absl::Status Compute(const LayerRows& rows);
  // inside [n, F] = activation(normed W^T + bias).
  absl::Status Widen(Matrix<const float> normed, const LinearWeight& weight, const Buffer& bias,
                     Activation activation, Matrix<float> inside, int64_t chunk_rows);
  Vector<const float> Bias(const Buffer& bias, int64_t size) const {
    return config_.biases ? VectorOf(bias, size) : Vector<const float>();
  }

  const Config config_;
  Device& device_;
  RowNorm norm_;
  LinearWeight gate_, up_;                  // [F, D]
  LinearWeight down_;                       // [D, F]
  Buffer gate_bias_, up_bias_, down_bias_;  // [F], [F], [D], or empty
  float *normed_ = nullptr, *gates_ = nullptr, *inside_ = nullptr;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_MLP_GATED_MLP_LAYER_H_
