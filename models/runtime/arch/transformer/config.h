// Shape and options that transformers of every attention kind have (docs/model-format.md).
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_CONFIG_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_CONFIG_H_

#include <cstdint>

#include "models/runtime/arch/transformer/fields.h"
#include "models/runtime/config.h"

namespace tvq::transformer {

// What stands around a layer's attention (docs/mathematics.md).
enum class Block : uint8_t { kGated, kStandard };

struct TransformerConfig {
  CommonConfig common;
  Block block = Block::kGated;
  int64_t d_model = 0;    // D
  int64_t d_k = 0;        // K, per head
  int64_t d_v = 0;        // V, per head
  int64_t n_layer = 0;    // blocks
  int64_t n_head = 1;     // H
  int64_t n_kv_head = 1;  // G
  int64_t d_ff = 0;       // F, width inside a standard block's MLP
  double pe_lam = 100000;
  bool pe_abs = false;
  bool tie_word_embeddings = false;
  bool output_norm = false;
  double logit_scale = 1;
};

// Reads all of it; what is wrong is in `fields`.
void ReadTransformerConfig(Fields& fields, TransformerConfig& config);

// Refuses what would need more working memory than anyone has.
void LimitWorkspace(Fields& fields, const TransformerConfig& config);

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_CONFIG_H_
