// The gated delta rule (kernels/ops/recurrent/gated_delta_rule.h) as a layer.
#ifndef TVQ_MODELS_RUNTIME_LAYERS_RECURRENT_CONVOLVED_GATED_DELTA_LAYER_H_
#define TVQ_MODELS_RUNTIME_LAYERS_RECURRENT_CONVOLVED_GATED_DELTA_LAYER_H_

#include <cstdint>
#include <string>

#include "kernels/ops/recurrent/gated_delta_rule.h"
#include "models/runtime/layers/recurrent/convolved/convolved_layer.h"

namespace tvq {

class GatedDeltaLayer : public ConvolvedLayer {
 public:
  struct Config {
    GatedDeltaShape shape;
    int64_t width = 0;      // D
    int64_t taps = 0;       // W, of the convolution
    float epsilon = 0;      // of both norms
    float gain_offset = 0;  // of the norm of the rows
  };

  // The device must outlive it.
  GatedDeltaLayer(std::string prefix, const Config& config, int64_t draft_rows, Device& device);

  void Load(WeightLoader& loader) override;
  // The key where it is compared and where it is written, query, value, strength, decay, z, and the
  // output.
  LayerRounding rounding() const override { return {.products = 8}; }

 protected:
  absl::Status Mix(const RecurrentRows& sessions, Matrix<const float> projected,
                   Matrix<const float> convolved, Tensor<float, 3> out) override;

 private:
  const Config config_;
  Buffer rate_, decay_bias_, gain_;  // [H], [H], [V]
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_RECURRENT_CONVOLVED_GATED_DELTA_LAYER_H_
