// The text part of a directory whose model reads images or sounds, too.
#ifndef TVQ_MODELS_RUNTIME_REGISTRY_TEXT_PART_H_
#define TVQ_MODELS_RUNTIME_REGISTRY_TEXT_PART_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "models/runtime/config/config.h"
#include "models/runtime/weights.h"

namespace tvq {

// What describes the model of text. Where config.json has a text_config beside a model_type that is
// no family's own, that, completed by what stands outside it; where older ones describe both in one
// object, it without the rest; else `config` as it is. INVALID_ARGUMENT where the two say
// different things.
absl::StatusOr<Config> TextConfig(const Config& config);

// Its tensors by the names that they have in a model of text alone, and what is left out.
struct TextWeights {
  std::unique_ptr<WeightSource> weights;
  std::string left_out;  // ModelInfo's
};

// `model_type` is the whole's. INVALID_ARGUMENT where the tensors are of no model of text, or of
// several.
absl::StatusOr<TextWeights> TextPartOf(std::unique_ptr<WeightSource> weights,
                                       const std::string& source, const std::string& model_type);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_REGISTRY_TEXT_PART_H_
