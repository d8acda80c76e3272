#include "models/runtime/layers/attention/rotary/rotary_weights.h"

namespace tvq {

RotaryWeights ReadRotaryWeights(const RotaryAttentionConfig& config, const std::string& prefix,
                                WeightLoader& loader) {
  const int64_t width = config.width, keys = config.kv_heads * config.head,
                queries = config.heads * config.head;
  const std::string attention = prefix + "self_attn.";
  RotaryWeights read;
  read.gain = loader.ReadGain(prefix + "input_layernorm.weight", width, config.gain_offset);
  read.q = loader.ReadMatrix(attention + "q_proj.weight",
                             config.output_gate ? 2 * queries : queries, width);
  read.k = loader.ReadMatrix(attention + "k_proj.weight", keys, width);
  read.v = loader.ReadMatrix(attention + "v_proj.weight", keys, width);
  read.o = loader.ReadMatrix(attention + "o_proj.weight", width, queries);
  if (config.qkv_biases) {
    read.q_bias =
        loader.Read(attention + "q_proj.bias", {config.output_gate ? 2 * queries : queries});
    read.k_bias = loader.Read(attention + "k_proj.bias", {keys});
    read.v_bias = loader.Read(attention + "v_proj.bias", {keys});
  }
  if (config.head_norms) {
    read.q_gain = loader.ReadGain(attention + "q_norm.weight", config.head, config.gain_offset);
    read.k_gain = loader.ReadGain(attention + "k_norm.weight", config.head, config.gain_offset);
  }
  if (config.output_bias) read.o_bias = loader.Read(attention + "o_proj.bias", {width});
  return read;
}

}  // namespace tvq
