// Of the layers of a converted model: which key/value heads keep how many exact keys
// (docs/model-format.md).
#ifndef TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_RING_RING_CONFIG_H_
#define TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_RING_RING_CONFIG_H_

#include <cstdint>
#include <vector>

#include "models/runtime/layers/attention/rotary/rotary_attention_config.h"

namespace tvq {

// Key/value heads of a layer that remember alike: by rings as long, or by all their keys, of which
// those nearer than W are met exactly behind the context that the model was trained with.
struct RingGroup {
  int64_t ring = 0;            // W, positions
  std::vector<int64_t> heads;  // ascending
  bool grows = false;          // all keys
};

// Of a layer.
struct RingAttentionConfig {
  RotaryAttentionConfig rotary;
  int64_t codes = 0;  // S of every key/value head, without the sink's
  std::vector<RingGroup> groups;

  // Query heads that share a key/value head.
  int64_t shared() const { return rotary.heads / rotary.kv_heads; }
  // Of group i, in what a layer projects: q, k and v of its heads.
  int64_t Columns(size_t i) const {
    return std::ssize(groups[i].heads) * (shared() + 2) * rotary.head;
  }
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_RING_RING_CONFIG_H_
