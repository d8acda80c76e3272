// Loads a model directory by the family its config.json names.
#ifndef TVQ_MODELS_RUNTIME_REGISTRY_REGISTRY_H_
#define TVQ_MODELS_RUNTIME_REGISTRY_REGISTRY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/runtime/config/config.h"
#include "models/runtime/load_options.h"
#include "models/runtime/model.h"
#include "models/runtime/tokenizer/tokenizer.h"
#include "models/runtime/weights.h"

namespace tvq {

// Reads config, weights and tokenizer of `dir`. Errors name file, tensor and offset.
absl::StatusOr<std::unique_ptr<Model>> LoadModel(const std::string& dir,
                                                 const LoadOptions& options);

// A model of the given config with weights from `weights`. `tokenizer` may be null if the model is
// used with token ids alone.
absl::StatusOr<std::unique_ptr<Model>> BuildModel(const Config& config, WeightSource& weights,
                                                  std::unique_ptr<Tokenizer> tokenizer,
                                                  const LoadOptions& options);

// Families that can be loaded, sorted.
std::vector<std::string> Families();

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_REGISTRY_REGISTRY_H_
