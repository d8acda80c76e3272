// A transformer with rotary positions in the directory of a Hugging Face model.
#ifndef TVQ_MODELS_RUNTIME_FAMILIES_ROTARY_ROTARY_TRANSFORMER_H_
#define TVQ_MODELS_RUNTIME_FAMILIES_ROTARY_ROTARY_TRANSFORMER_H_

#include <memory>
#include <string_view>

#include "models/runtime/families/family.h"
#include "models/runtime/families/rotary/rotary_config.h"

namespace tvq {

// A layer of attention and a gated MLP a block, ahead of all a layer that makes their angles.
absl::StatusOr<std::unique_ptr<Model>> BuildRotaryTransformer(const RotaryFamily& family,
                                                              const Config& config,
                                                              WeightSource& weights,
                                                              std::unique_ptr<Tokenizer> tokenizer,
                                                              const LoadOptions& options);

// Tensors that checkpoints of these families hold and that nothing needs: frequencies, and logits
// that are the embedding again.
bool IsSpareTensor(std::string_view name);

// Family::build of the family with these options.
template <const RotaryFamily& kFamily>
absl::StatusOr<std::unique_ptr<Model>> BuildRotary(const Family&, const Config& config,
                                                   WeightSource& weights,
                                                   std::unique_ptr<Tokenizer> tokenizer,
                                                   const LoadOptions& options) {
  return BuildRotaryTransformer(kFamily, config, weights, std::move(tokenizer), options);
}

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_FAMILIES_ROTARY_ROTARY_TRANSFORMER_H_
