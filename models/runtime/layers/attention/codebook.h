// The codes that keys are compared with (docs/mathematics.md).
#ifndef TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_CODEBOOK_H_
#define TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_CODEBOOK_H_

#include <string>
#include <vector>

#include "kernels/ops/attention/head_scores.h"
#include "models/runtime/layers/attention/attention_config.h"
#include "models/runtime/stack/weight_loader.h"

namespace tvq {

// C [G, S, K] = c_sum / max(c_count, 0.01), from the tensors `prefix` + "codebook.sum" and `prefix`
// + "codebook.count". Errors are in loader.status().
std::vector<float> ReadCodebook(const AttentionConfig& config, const std::string& prefix,
                                WeightLoader& loader);
HeadKeys LoadCodebook(const AttentionConfig& config, const std::string& prefix,
                      WeightLoader& loader);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_CODEBOOK_H_
