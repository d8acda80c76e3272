// Shape and options of layers with attention (docs/model-format.md).
#ifndef TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_ATTENTION_CONFIG_H_
#define TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_ATTENTION_CONFIG_H_

#include <cstdint>

#include "models/runtime/stack/stack_config.h"

namespace tvq {

// The kind of block that a layer's attention is part of (docs/mathematics.md).
enum class Block : uint8_t { kGated, kStandard };

// How scores depend on the distance of positions within the reach (docs/mathematics.md).
enum class PositionBias : uint8_t { kRelative, kToeplitz, kRerope };

// The config of the stack, and of its layers with attention.
struct AttentionConfig : StackConfig {
  Block block = Block::kGated;
  int64_t d_k = 0;        // K, per head
  int64_t d_v = 0;        // V, per head
  int64_t n_head = 1;     // H
  int64_t n_kv_head = 1;  // G

  // 0 for kinds of attention that do not have the field.
  int64_t n_code = 0;     // S
  int64_t block_len = 0;  // used in training; the computation here does not depend on it
  int64_t mem_len = 0;    // M, reach of the positional bias
  PositionBias position_bias = PositionBias::kRelative;
  double sigma = 0;       // width of a code
  int64_t n_feature = 0;  // random features per key/value head

  int64_t window() const { return mem_len + 1; }  // W
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_ATTENTION_CONFIG_H_
