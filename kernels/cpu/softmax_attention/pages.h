// Where a layer's keys and values lie in a session's pages.
#ifndef TVQ_KERNELS_CPU_SOFTMAX_ATTENTION_PAGES_H_
#define TVQ_KERNELS_CPU_SOFTMAX_ATTENTION_PAGES_H_

#include <cstddef>

#include "kernels/numbers/bfloat16.h"
#include "kernels/ops/attention/softmax_attention.h"

namespace tvq {

// Keys and values of type T, that of shape.dtype.
template <typename T>
struct LayerPages {
  const KeyValueShape& shape;
  int64_t layer_offset;
  const KeyValuePages& pages;

  // Panels [16][K][16] of head g in page p.
  T* Keys(int64_t p, int64_t g) const { return Start(p) + shape.KeyIndex(g, 0, 0); }
  // Rows [256][V] of head g in page p.
  T* Values(int64_t p, int64_t g) const {
    return Start(p) + shape.ValueOffset() / static_cast<int64_t>(sizeof(T)) +
           shape.ValueIndex(g, 0);
  }

 private:
  T* Start(int64_t p) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(pages.pages[p]) + layer_offset);
  }
};

// Writes the key of head g at `position`. k [K].
template <typename T>
void WriteKey(const LayerPages<T>& layer, int64_t g, int64_t position, const float* k) {
  T* key = layer.Keys(position / kKeyValuePage, g) +
           layer.shape.KeyIndex(0, position % kKeyValuePage, 0);
  for (int64_t i = 0; i < layer.shape.key; ++i) StoreAs(k[i], key + i * kKeyPanel);
}

// Writes the key and the value of head g at `position`. k [K], v [V].
template <typename T>
void AppendKeyValue(const LayerPages<T>& layer, int64_t g, int64_t position, const float* k,
                    const float* v) {
  WriteKey(layer, g, position, k);
  T* value =
      layer.Values(position / kKeyValuePage, g) + position % kKeyValuePage * layer.shape.value;
  for (int64_t c = 0; c < layer.shape.value; ++c) StoreAs(v[c], value + c);
}

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_SOFTMAX_ATTENTION_PAGES_H_
