// Shape and options of a Transformer-VQ (docs/model-format.md).
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_CONFIG_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_CONFIG_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "models/runtime/arch/transformer/config.h"

namespace tvq::transformer {

struct VqConfig : TransformerConfig {
  int64_t n_code = 0;     // S
  int64_t block_len = 0;  // of training; the computation does not depend on it
  int64_t mem_len = 0;    // M, reach of the positional bias

  int64_t window() const { return mem_len + 1; }  // W
};

// INVALID_ARGUMENT naming the field and what would be right.
absl::StatusOr<VqConfig> ParseVqConfig(const Config& config);

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_CONFIG_H_
