// The text part of a model that also reads images or sounds.
#ifndef TVQ_MODELS_RUNTIME_REGISTRY_TEXT_PART_H_
#define TVQ_MODELS_RUNTIME_REGISTRY_TEXT_PART_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "models/runtime/config/config.h"
#include "models/runtime/weights.h"

namespace tvq {

// The config of the text part. If model_type is a family's own, it is `config` as it is. Else, if
// there is a text_config, it is that object, completed by fields outside it. Older files describe
// all parts in one object. Then it is that object, with the text family's model_type and without
// vision_config. INVALID_ARGUMENT if tie_word_embeddings differs in text_config and outside it.
absl::StatusOr<Config> TextConfig(const Config& config);

// The text part's tensors, under the names that they have in a model of text alone.
struct TextWeights {
  std::unique_ptr<WeightSource> weights;
  std::string left_out;  // see ModelInfo
};

// `model_type` is that of the whole model, and `source` names its config.json in messages.
// INVALID_ARGUMENT unless there is exactly one tensor embed_tokens.weight, under any prefix.
absl::StatusOr<TextWeights> TextPartOf(std::unique_ptr<WeightSource> weights,
                                       const std::string& source, const std::string& model_type);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_REGISTRY_TEXT_PART_H_
