// Codes that are turned by distance (docs/mathematics.md, ReRoPE).
#ifndef TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_VQ_TURNED_CODES_H_
#define TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_VQ_TURNED_CODES_H_

#include <memory>
#include <utility>
#include <vector>

#include "kernels/ops/attention/head_scores.h"
#include "kernels/ops/attention/turned_scores.h"
#include "models/runtime/layers/attention/attention_config.h"
#include "models/runtime/stack/weight_loader.h"

namespace tvq {

// The turned codes of one layer.
class TurnedCodes {
 public:
  // All layers share `turns` [W, K]; the first layer that loads fills it.
  TurnedCodes(const AttentionConfig& config, std::shared_ptr<Buffer> turns)
      : config_(config), turns_(std::move(turns)) {}

  // `codebook` [G, S, K].
  void Load(const std::vector<float>& codebook, WeightLoader& loader);

  // Rot(M) C: the keys of positions beyond the reach.
  const HeadKeys& far() const { return far_; }

  // The arguments of ops on states of `shape`.
  TurnedKeys keys(const VqShape& shape) const;

 private:
  const AttentionConfig config_;
  const std::shared_ptr<Buffer> turns_;
  HeadKeys far_;
  Buffer codebook_;  // C [G, S, K]
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_VQ_TURNED_CODES_H_
