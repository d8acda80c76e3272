// The part of a stack's config that does not depend on its layers (docs/model-format.md).
#ifndef TVQ_MODELS_RUNTIME_STACK_STACK_CONFIG_H_
#define TVQ_MODELS_RUNTIME_STACK_STACK_CONFIG_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "kernels/ops/norm_rows.h"
#include "models/runtime/config/config.h"
#include "models/runtime/config/config_fields.h"

namespace tvq {

// Names of the tensors at both ends of a model.
struct VocabularyTensors {
  std::string embedding = "embedding.weight";
  std::string norm = "norm";  // + ".weight", and + ".bias" if `norm_bias`
  std::string logits = "lm_head";
  bool norm_bias = true;
  bool logits_bias = true;
};

struct StackConfig {
  CommonConfig common;
  int64_t d_model = 0;  // D
  double pe_lam = 100000;
  bool pe_abs = false;
  bool tie_word_embeddings = false;
  bool output_norm = false;
  Norm norm = Norm::kRms;  // of output_norm
  float norm_epsilon = kOwnEpsilon;
  float norm_gain_offset = 0;  // is added to the gains that the checkpoint has
  VocabularyTensors tensors;
  double logit_scale = 1;

  // The most rows of one pass through the layers. At least 64, so that decode tiles do not get
  // small with small prefill chunks.
  int64_t rows() const { return std::max<int64_t>(common.prefill_chunk, 64); }
};

// Reads the fields of config.json that all families of stacks have. Does not set `norm`, which the
// family chooses.
void ReadStackConfig(ConfigFields& fields, StackConfig* config);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STACK_STACK_CONFIG_H_
