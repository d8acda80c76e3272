// What layers with softmax attention keep of a session: keys and values of every position.
#ifndef TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_CACHE_PARTS_H_
#define TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_CACHE_PARTS_H_

#include <cstdint>

#include "kernels/ops/attention/softmax_attention.h"
#include "models/runtime/stack/layer.h"
#include "models/runtime/stack/layer_parts.h"

namespace tvq {

// "key" [G, n, K] and "value" [G, n, V] of the shape's dtype, in pages.
class CacheParts : public LayerParts {
 public:
  explicit CacheParts(const KeyValueShape& shape)
      : LayerParts({{.name = "key",
                     .element = ElementOf(shape.dtype),
                     .shape = {shape.kv_heads, kKeyValuePage, shape.key},
                     .growth = Growth::kPages,
                     .panel = kKeyPanel},
                    {.name = "value",
                     .element = ElementOf(shape.dtype),
                     .shape = {shape.kv_heads, kKeyValuePage, shape.value},
                     .growth = Growth::kPages}}),
        shape_(shape) {}

  const KeyValueShape& shape() const { return shape_; }

 private:
  const KeyValueShape shape_;
};

// To take a draft back, a cache has nothing to do: only positions below the state's are read.
class CacheUndo : public LayerUndo {
 public:
  // `rows` drafts at most. Only devices that compute in host memory take several rows of a session
  // in one step.
  CacheUndo(const Device& device, int64_t rows) : rows_(device.host_memory() ? rows : 0) {}

  int64_t rows() const override { return rows_; }
  void ViewDraft(int64_t, std::byte*) const override {}
  absl::Status TakeBack(const PartMemory&, int64_t, int64_t) override { return absl::OkStatus(); }

 private:
  const int64_t rows_;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_CACHE_PARTS_H_
