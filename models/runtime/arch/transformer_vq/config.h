// Shape and options of a Transformer-VQ (docs/model-format.md).
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_CONFIG_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_CONFIG_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "models/runtime/config.h"

namespace tvq::transformer_vq {

struct VqConfig {
  CommonConfig common;
  int64_t d_model = 0;    // D
  int64_t d_k = 0;        // K, per head
  int64_t d_v = 0;        // V, per head
  int64_t n_code = 0;     // S
  int64_t n_layer = 0;    // gated attention units
  int64_t n_head = 1;     // H
  int64_t n_kv_head = 1;  // G
  int64_t block_len = 0;  // of training; the computation does not depend on it
  int64_t mem_len = 0;    // M, reach of the positional bias
  double pe_lam = 100000;
  bool pe_abs = false;
  bool tie_word_embeddings = false;
  bool output_norm = false;
  double logit_scale = 1;

  int64_t window() const { return mem_len + 1; }  // W
};

// INVALID_ARGUMENT naming the field and what would be right.
absl::StatusOr<VqConfig> ParseConfig(const Config& config);

}  // namespace tvq::transformer_vq

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_CONFIG_H_
