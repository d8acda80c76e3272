// A transformer with rotary positions, from the directory of a Hugging Face model.
#ifndef TVQ_MODELS_RUNTIME_FAMILIES_ROTARY_ROTARY_TRANSFORMER_H_
#define TVQ_MODELS_RUNTIME_FAMILIES_ROTARY_ROTARY_TRANSFORMER_H_

#include <memory>
#include <string_view>

#include "models/runtime/families/family.h"
#include "models/runtime/families/rotary/rotary_config.h"

namespace tvq {

// Each block is a layer of attention (in a converted model a projection and a layer for each group
// of heads) and a gated MLP. Ahead of all blocks come layers that make the angles of positions.
absl::StatusOr<std::unique_ptr<Model>> BuildRotaryTransformer(const RotaryFamily& family,
                                                              const Config& config,
                                                              WeightSource& weights,
                                                              std::unique_ptr<Tokenizer> tokenizer,
                                                              const LoadOptions& options);

// Whether a tensor of this name may be in a checkpoint of these families although it is not needed:
// frequencies, and weights of the logits that repeat those of the embedding.
bool IsSpareTensor(std::string_view name);

// Family::build for the family with the options `kFamily`.
template <const RotaryFamily& kFamily>
absl::StatusOr<std::unique_ptr<Model>> BuildRotary(const Family&, const Config& config,
                                                   WeightSource& weights,
                                                   std::unique_ptr<Tokenizer> tokenizer,
                                                   const LoadOptions& options) {
  return BuildRotaryTransformer(kFamily, config, weights, std::move(tokenizer), options);
}

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_FAMILIES_ROTARY_ROTARY_TRANSFORMER_H_
