// A Transformer-VQ's weights, packed for a device.
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_WEIGHTS_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_WEIGHTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device.h"
#include "kernels/ops/head_scores.h"
#include "kernels/ops/linear.h"
#include "models/runtime/arch/transformer_vq/config.h"
#include "models/runtime/registry.h"
#include "models/runtime/weights.h"

namespace tvq::transformer_vq {

// t = K^(-1/4) is folded into u, w and the position keys.
struct LayerWeights {
  Buffer norm_gain;    // [D]
  Buffer norm_bias;    // [D]
  LinearWeight qkvg;   // [H*K + G*K + G*V + H*V, D]
  LinearWeight out;    // [D, H*V]
  Buffer u;            // [H, K]
  Buffer w;            // [H, K]
  HeadKeys codebook;   // C [G, S, K]
  HeadKeys positions;  // R [H, M+1, K], by distance
};

struct Weights {
  Buffer embedding;         // [vocab, D] of `dtype`
  Buffer embedding_scales;  // [vocab], int8 alone
  DType dtype = DType::kFloat32;
  float position_scale = 0;  // 0 without absolute positions
  std::vector<LayerWeights> layers;
  Buffer norm_gain;     // [D], empty without output_norm
  Buffer norm_bias;     // [D]
  LinearWeight logits;  // [vocab, D]
  Buffer logits_bias;   // [vocab]

  int64_t parameters = 0;  // as stored in the checkpoint
  int64_t bytes = 0;       // device memory
  double rounding = 0;     // see ModelInfo
};

// Reads, checks (shape, finite values, non-negative counts, int8 in range) and packs. Errors name
// the tensor.
absl::StatusOr<Weights> LoadWeights(const VqConfig& config, WeightSource& source,
                                    const LoadOptions& options);

}  // namespace tvq::transformer_vq

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_WEIGHTS_H_
