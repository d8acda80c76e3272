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

// Writes the key and the value of head g at `position`. k [K], v [V].
template <typename T>
void AppendKeyValue(const LayerPages<T>& layer, int64_t g, int64_t position, const float* k,
                    const float* v) {
  const int64_t page = position / kKeyValuePage;
  const int64_t slot = position % kKeyValuePage;
  T* key = layer.Keys(page, g) + layer.shape.KeyIndex(0, slot, 0);
  for (int64_t i = 0; i < layer.shape.key; ++i) StoreAs(k[i], key + i * kKeyPanel);
  T* value = layer.Values(page, g) + slot * layer.shape.value;
  for (int64_t c = 0; c < layer.shape.value; ++c) StoreAs(v[c], value + c);
}

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_SOFTMAX_ATTENTION_PAGES_H_
