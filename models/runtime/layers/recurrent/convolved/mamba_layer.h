// Mamba-2's mixer (kernels/ops/recurrent/mamba_scan.h) as a layer. What the scan makes is normed
// over all heads, then projected.
#ifndef TVQ_MODELS_RUNTIME_LAYERS_RECURRENT_CONVOLVED_MAMBA_LAYER_H_
#define TVQ_MODELS_RUNTIME_LAYERS_RECURRENT_CONVOLVED_MAMBA_LAYER_H_

#include <cstdint>
#include <string>

#include "kernels/ops/recurrent/mamba_scan.h"
#include "models/runtime/layers/recurrent/convolved/convolved_layer.h"

namespace tvq {

class MambaLayer : public ConvolvedLayer {
 public:
  struct Config {
    MambaShape shape;
    int64_t width = 0;                    // D
    int64_t taps = 0;                     // W, of the convolution
    float epsilon = 0;                    // of both norms
    float least_step = 0, most_step = 0;  // may be infinite
    bool biases = false;                  // of both projections
    bool convolution_bias = false;
  };

  // The device must outlive it.
  MambaLayer(std::string prefix, const Config& config, int64_t draft_rows, Device& device);

  void Load(WeightLoader& loader) override;
  // x, B, C, the step, z, and the output.
  LayerRounding rounding() const override { return {.products = 6}; }

 protected:
  absl::Status Mix(const RecurrentRows& sessions, Matrix<const float> projected,
                   Matrix<const float> convolved, Tensor<float, 3> out) override;

 private:
  const Config config_;
  RowNorm inner_norm_;
  Buffer rate_, step_bias_, skip_;  // [H]
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_RECURRENT_CONVOLVED_MAMBA_LAYER_H_
