// Shape and options of layers with attention (docs/model-format.md).
#ifndef TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_ATTENTION_CONFIG_H_
#define TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_ATTENTION_CONFIG_H_

#include <cstdint>

#include "models/runtime/stack/stack_config.h"

namespace tvq {

// What stands around a layer's attention (docs/mathematics.md).
enum class Block : uint8_t { kGated, kStandard };

// What tells distances within the reach apart (docs/mathematics.md).
enum class PositionBias : uint8_t { kRelative, kToeplitz, kRerope };

// Of the stack that the layers are of, and theirs.
struct AttentionConfig : StackConfig {
  Block block = Block::kGated;
  int64_t d_k = 0;        // K, per head
  int64_t d_v = 0;        // V, per head
  int64_t n_head = 1;     // H
  int64_t n_kv_head = 1;  // G

  // Of kinds that have them, else 0.
  int64_t n_code = 0;     // S
  int64_t block_len = 0;  // of training; the computation does not depend on it
  int64_t mem_len = 0;    // M, reach of the positional bias
  PositionBias position_bias = PositionBias::kRelative;
  double sigma = 0;       // width of a code
  int64_t n_feature = 0;  // random features of a kv head

  int64_t window() const { return mem_len + 1; }  // W
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_ATTENTION_CONFIG_H_
