// The frame of layers x += Mix(projected, convolved) Wo whose Mix is a recurrence. `projected` is a
// projection of the normed rows, `convolved` a short causal convolution of some of its columns.
#ifndef TVQ_MODELS_RUNTIME_LAYERS_RECURRENT_CONVOLVED_CONVOLVED_LAYER_H_
#define TVQ_MODELS_RUNTIME_LAYERS_RECURRENT_CONVOLVED_CONVOLVED_LAYER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/ops/linear.h"
#include "models/runtime/layers/recurrent/recurrent_layer.h"
#include "models/runtime/stack/row_norm.h"

namespace tvq {

class ConvolvedLayer : public RecurrentLayer {
 public:
 protected:
  struct Frame {
    RowNorm::Config norm;   // of the rows, of width D
    int64_t projected = 0;  // P
    int64_t first = 0;      // the first column of [N, P] that is convolved
    int64_t convolved = 0;  // C
    int64_t taps = 0;       // W
    int64_t heads = 0, key = 0, value = 0;
  };
  // Names of the layer's tensors.
  struct Names {
    std::string norm;
    std::string input_bias;  // empty: the projections have no biases
    std::string convolution, output;
  };

  ConvolvedLayer(std::string prefix, const Frame& frame, int64_t draft_rows, Device& device);

  // Takes the projection, `in` [P, D], and loads everything else except what Mix needs.
  void LoadFrame(const Names& names, LinearWeight in, bool convolution_bias, WeightLoader& loader);
  Vector<const float> PerHead(const Buffer& buffer) const { return VectorOf(buffer, frame_.heads); }

  // Fills out [N, H, V] in.
  virtual absl::Status Mix(const RecurrentRows& sessions, Matrix<const float> projected,
                           Matrix<const float> convolved, Tensor<float, 3> out) = 0;

  void ReserveRows(int64_t rows, WorkingMemory& memory) final;
  absl::Status Compute(const RecurrentRows& sessions, const LayerRows& rows) final;

 private:
  const Frame frame_;
  RowNorm norm_;
  LinearWeight in_;       // [P, D]
  Buffer in_bias_;        // [P] or empty
  Buffer weight_, bias_;  // [W, C], [C] or empty
  LinearWeight out_;      // [D, H V]
  Buffer out_bias_;       // [D] or empty
  float *normed_ = nullptr, *projected_ = nullptr, *convolved_ = nullptr, *mixed_ = nullptr;
};

// Reads decays [size] that a checkpoint keeps as logarithms: -exp(values). An error, which names
// the tensor, if one is not finite.
Buffer LoadRates(const std::string& name, int64_t size, WeightLoader& loader);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_RECURRENT_CONVOLVED_CONVOLVED_LAYER_H_
