// Shape and options of a transformer (docs/model-format.md).
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_CONFIG_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_CONFIG_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/statusor.h"
#include "models/runtime/config.h"

namespace tvq::transformer {

// What stands around a layer's attention (docs/mathematics.md).
enum class Block : uint8_t { kGated, kStandard };

// What tells distances within the reach apart (docs/mathematics.md).
enum class PositionBias : uint8_t { kRelative, kToeplitz, kRerope };

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

  // Of kinds that have them (kind_fields.h), else 0.
  int64_t n_code = 0;     // S
  int64_t block_len = 0;  // of training; the computation does not depend on it
  int64_t mem_len = 0;    // M, reach of the positional bias
  PositionBias position_bias = PositionBias::kRelative;
  double sigma = 0;       // width of a code
  int64_t n_feature = 0;  // random features of a kv head

  int64_t window() const { return mem_len + 1; }  // W

  // Most rows of one pass through the layers; small prefill chunks do not make small decode tiles.
  int64_t rows() const { return std::max<int64_t>(common.prefill_chunk, 64); }
};

// INVALID_ARGUMENT naming the field and what would be right: a field that the kind or the block
// lacks is refused, and so is what would need more memory than anyone has.
absl::StatusOr<TransformerConfig> ParseTransformerConfig(const Config& config);

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_CONFIG_H_
