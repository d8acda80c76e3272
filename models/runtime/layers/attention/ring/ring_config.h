// The config of a converted model's layers: how many exact keys each key/value head keeps
// (docs/model-format.md).
#ifndef TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_RING_RING_CONFIG_H_
#define TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_RING_RING_CONFIG_H_

#include <cstdint>
#include <vector>

#include "models/runtime/layers/attention/rotary/rotary_attention_config.h"

namespace tvq {

// Key/value heads of a layer that keep their past in the same way: by rings of the same length, or
// by all their keys (`grows`). In the latter case, beyond the context that the model was trained
// with, only keys nearer than W are scored by their own distance.
struct RingGroup {
  int64_t ring = 0;            // W, positions
  std::vector<int64_t> heads;  // ascending
  bool grows = false;          // all keys
};

// The config of one layer.
struct RingAttentionConfig {
  RotaryAttentionConfig rotary;
  int64_t codes = 0;  // S of every key/value head, without the code of the sink
  std::vector<RingGroup> groups;

  // Query heads that share a key/value head.
  int64_t shared() const { return rotary.heads / rotary.kv_heads; }
  // Columns of group i in the projection of a layer: q, k and v of its heads.
  int64_t Columns(size_t i) const {
    return std::ssize(groups[i].heads) * (shared() + 2) * rotary.head;
  }
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_RING_RING_CONFIG_H_
