// Codes that are turned by distance (docs/mathematics.md, ReRoPE).
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_TURNED_CODES_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_TURNED_CODES_H_

#include <vector>

#include "kernels/ops/attention/head_scores.h"
#include "kernels/ops/attention/turned_scores.h"
#include "models/runtime/arch/transformer/config.h"
#include "models/runtime/arch/transformer/weight_loader.h"

namespace tvq::transformer {

// Weights of every layer.
class TurnedCodes {
 public:
  explicit TurnedCodes(const TransformerConfig& config) : config_(config) {}

  // `codebook` [G, S, K].
  void LoadLayer(const std::vector<float>& codebook, WeightLoader& loader);

  // Rot(M) C: what queries meet beyond the reach.
  const HeadKeys& far(int64_t layer) const { return layers_[static_cast<size_t>(layer)].far; }

  // Of the ops on states of `shape`.
  TurnedKeys keys(int64_t layer, const VqShape& shape) const;

 private:
  struct Layer {
    HeadKeys far;
    Buffer codebook;  // C [G, S, K]
  };

  const TransformerConfig config_;
  Buffer turns_;  // [W, K]
  std::vector<Layer> layers_;
};

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_TURNED_CODES_H_
