// A transformer's weights, packed for a device, but for what its attention alone has.
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_WEIGHTS_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_WEIGHTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/ops/linear.h"
#include "models/runtime/arch/transformer/attention.h"
#include "models/runtime/arch/transformer/config.h"
#include "models/runtime/registry.h"
#include "models/runtime/weights.h"

namespace tvq::transformer {

struct LayerWeights {
  Buffer norm_gain;   // [D]
  Buffer norm_bias;   // [D]
  LinearWeight qkvg;  // [H*K + G*K + G*V + H*V, D], in a standard block without the last
  LinearWeight out;   // [D, H*V]

  // A standard block's MLP.
  Buffer mlp_norm_gain;   // [D]
  Buffer mlp_norm_bias;   // [D]
  LinearWeight mlp_up;    // [F, D]
  Buffer mlp_up_bias;     // [F]
  LinearWeight mlp_down;  // [D, F]
  Buffer mlp_down_bias;   // [D]
};

struct Weights {
  Buffer embedding;         // [vocab, D]
  Buffer embedding_scales;  // [vocab], int8 alone
  DType embedding_dtype = DType::kFloat32;
  float position_scale = 0;  // 0 without absolute positions
  std::vector<LayerWeights> layers;
  Buffer norm_gain;     // [D], empty without output_norm
  Buffer norm_bias;     // [D]
  LinearWeight logits;  // [vocab, D]
  Buffer logits_bias;   // [vocab]

  // With those of the attention:
  int64_t parameters = 0;  // as stored in the checkpoint
  int64_t bytes = 0;       // device memory
  double rounding = 0;     // see ModelInfo
};

// Reads, checks (shape, finite values, int8 in range) and packs; has `attention` do so with its
// own. Errors name the tensor.
absl::StatusOr<Weights> LoadWeights(const TransformerConfig& config, Attention& attention,
                                    WeightSource& source, const LoadOptions& options);

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_WEIGHTS_H_
