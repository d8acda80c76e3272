// The tensors of attention with rotary positions, by the names that Hugging Face directories have.
#ifndef TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_ROTARY_ROTARY_WEIGHTS_H_
#define TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_ROTARY_ROTARY_WEIGHTS_H_

#include <string>
#include <vector>

#include "models/runtime/layers/attention/rotary/rotary_attention_config.h"
#include "models/runtime/stack/weight_loader.h"

namespace tvq {

// In host memory. Vectors that the model lacks are empty.
struct RotaryWeights {
  std::vector<float> gain;  // [D], of the norm before attention
  MatrixValues q, k, v, o;  // [H K, D], with gates [H 2 K, D]; [G K, D], [G K, D], [D, H K]
  std::vector<float> q_bias, k_bias, v_bias;  // as the rows of q, k and v
  std::vector<float> q_gain, k_gain, o_bias;  // [K], [K], [D]
};

// Errors are in loader.status().
RotaryWeights ReadRotaryWeights(const RotaryAttentionConfig& config, const std::string& prefix,
                                WeightLoader& loader);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_ROTARY_ROTARY_WEIGHTS_H_
