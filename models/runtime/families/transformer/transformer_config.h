// Shape and options of a transformer (docs/model-format.md).
#ifndef TVQ_MODELS_RUNTIME_FAMILIES_TRANSFORMER_TRANSFORMER_CONFIG_H_
#define TVQ_MODELS_RUNTIME_FAMILIES_TRANSFORMER_TRANSFORMER_CONFIG_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "models/runtime/config/config.h"
#include "models/runtime/layers/attention/attention_config.h"

namespace tvq {

struct TransformerConfig : AttentionConfig {
  int64_t n_layer = 0;  // blocks
  int64_t d_ff = 0;     // F, width inside a standard block's MLP
};

// The fields of a kind of attention that other kinds lack: those that it must have, and those that
// it may have. models/training/config.py has the same.
struct KindFields {
  std::vector<const char*> required;
  std::vector<const char*> optional;

  bool Has(std::string_view field) const;
};

// INVALID_ARGUMENT, naming the field and what would be right. A field that the kind or the block
// lacks is an error, and so is a size far above any memory.
absl::StatusOr<TransformerConfig> ParseTransformerConfig(const Config& config,
                                                         const KindFields& kind);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_FAMILIES_TRANSFORMER_TRANSFORMER_CONFIG_H_
