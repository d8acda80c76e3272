// Shape and options of a softmax Transformer (docs/model-format.md).
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SOFTMAX_CONFIG_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SOFTMAX_CONFIG_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "models/runtime/arch/transformer/config.h"

namespace tvq::transformer {

struct SoftmaxConfig : TransformerConfig {
  int64_t mem_len = 0;  // M, reach of the positional bias

  int64_t window() const { return mem_len + 1; }  // W
};

// INVALID_ARGUMENT naming the field and what would be right.
absl::StatusOr<SoftmaxConfig> ParseSoftmaxConfig(const Config& config);

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SOFTMAX_CONFIG_H_
