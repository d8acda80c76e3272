// Shape and options of attention with rotary positions.
#ifndef TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_ROTARY_ROTARY_ATTENTION_CONFIG_H_
#define TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_ROTARY_ROTARY_ATTENTION_CONFIG_H_

#include <cmath>
#include <cstdint>

namespace tvq {

struct RotaryAttentionConfig {
  int64_t width = 0;     // D
  int64_t heads = 0;     // H
  int64_t kv_heads = 0;  // G, divides H
  int64_t head = 0;      // K, and V
  float epsilon = 0;     // of all norms
  bool qkv_biases = false, output_bias = false;
  bool head_norms = false;
  float gain_offset = 0;     // is added to the gains of norms that the checkpoint has
  bool output_gate = false;  // q_proj also makes gates: of each head K queries, then K gates

  // The factor of queries, K^(-1/2).
  float scale() const { return static_cast<float>(1 / std::sqrt(static_cast<double>(head))); }
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_ROTARY_ROTARY_ATTENTION_CONFIG_H_
