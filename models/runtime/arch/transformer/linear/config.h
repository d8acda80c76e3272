// Shape and options of a linear Transformer (docs/model-format.md).
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_LINEAR_CONFIG_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_LINEAR_CONFIG_H_

#include "absl/status/statusor.h"
#include "models/runtime/arch/transformer/config.h"

namespace tvq::transformer {

struct LinearConfig : TransformerConfig {};

// INVALID_ARGUMENT naming the field and what would be right.
absl::StatusOr<LinearConfig> ParseLinearConfig(const Config& config);

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_LINEAR_CONFIG_H_
