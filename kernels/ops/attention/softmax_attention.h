// Softmax attention over a cache of keys and values that grows with the context, in pages.
//
//   score(i,j) = q_i . k_j + position_score_i[i-j]   if i-j < W
//              = q_i . k_j                           if i-j >= W
//   o_i = softmax_{j<=i}(score) V
//
// q already has its scale and the content bias u, and position scores are ordered by distance, as
// for VQ attention (kernels/ops/attention/head_scores.h). This is VQ attention with keys in place
// of their codewords. W = 0: there are no position scores.
//
// Softmax is computed online, a tile of keys at a time: only the scores of one tile are in memory
// at a time. Tiles start at absolute positions, so that a position's bits in decode depend on
// neither the batch nor the threads, and in prefill not even on how positions were cut into calls.
#ifndef TVQ_KERNELS_OPS_ATTENTION_SOFTMAX_ATTENTION_H_
#define TVQ_KERNELS_OPS_ATTENTION_SOFTMAX_ATTENTION_H_

#include "kernels/device/tensor.h"
#include "kernels/ops/attention/key_panels.h"
#include "kernels/ops/ops.h"

namespace tvq {

// Positions of a page.
inline constexpr int64_t kKeyValuePage = 256;

// G key/value heads, keys of K numbers, values of V, and how one layer's part of a page lies in
// memory:
//
//   keys [G, 256/16, K, 16]     values [G, 256, V]     of `dtype`, float32 or bfloat16
//
// Keys lie in panels of 16 positions, with a vector for each of the K numbers, since products with
// queries read them in this order. Values lie in rows.
struct KeyValueShape {
  int64_t kv_heads = 0;  // G
  int64_t key = 0;       // K
  int64_t value = 0;     // V
  DType dtype = DType::kFloat32;

  // Where number `i` of a key lies, in elements from the start of the layer's keys; `slot` is
  // position % 256. The next number of the key lies kKeyPanel elements further on.
  constexpr int64_t KeyIndex(int64_t g, int64_t slot, int64_t i) const {
    return ((g * kKeyValuePage + slot / kKeyPanel * kKeyPanel) * key) + i * kKeyPanel +
           slot % kKeyPanel;
  }
  // Where the V values of a position begin, in elements from the start of the layer's values, which
  // lie ValueOffset() bytes behind the start of its keys.
  constexpr int64_t ValueIndex(int64_t g, int64_t slot) const {
    return (g * kKeyValuePage + slot) * value;
  }
  constexpr int64_t ValueOffset() const {
    return kv_heads * kKeyValuePage * key * static_cast<int64_t>(SizeOf(dtype));
  }
  // Bytes of one layer in a page: a multiple of 64.
  constexpr int64_t LayerBytes() const {
    return kv_heads * kKeyValuePage * (key + value) * static_cast<int64_t>(SizeOf(dtype));
  }
};

// A session's pages. Page p holds positions [256 p, 256 p + 256) of all layers; it starts at a
// multiple of 64 bytes. A position that has not been appended may hold anything: it is not used.
// Sessions may share pages that none of them writes.
struct KeyValuePages {
  void* const* pages = nullptr;  // [count], in device memory as the pages are
  int64_t count = 0;

  // True for the pages of no session.
  constexpr bool none() const { return pages == nullptr; }
};

// One new position for each of N sessions of any lengths. On devices whose memory the host reads,
// several rows may be of one session, at different positions; on others no two rows may write one
// page. First writes k and v of all rows, at positions[n], rounded to the shape's dtype. Then each
// row attends to positions 0 to positions[n] as they are stored. A session's result does not depend
// on N. A row whose pages are none fills up the batch: its row of `out` is zero. INVALID_ARGUMENT
// when a session's pages do not reach its position (on devices whose memory the host reads).
//
// Bytes per session and key/value head: (positions[n] + 1) (K + V) elements, once for all query
// heads that share it.
struct SoftmaxDecodeAttentionArgs {
  KeyValueShape shape;
  int64_t layer_offset = 0;                // bytes from a page's start to the layer's keys
  Vector<const KeyValuePages> sessions;    // [N]
  Vector<const int64_t> positions;         // [N] position of the new token, from 0
  Tensor<const float, 3> q;                // [N, H, K], G divides H
  Tensor<const float, 3> position_scores;  // [N, H, W] by distance, W >= 0
  Tensor<const float, 3> k;                // [N, G, K]
  Tensor<const float, 3> v;                // [N, G, V]
  Tensor<float, 3> out;                    // [N, H, V]
};

// T consecutive positions of one session: writes all of their k and v, then attends, each position
// to those up to itself. However positions are cut into calls, the bits of the pages and of `out`
// are the same; decode writes the same pages and agrees within rounding.
struct SoftmaxPrefillAttentionArgs {
  KeyValueShape shape;
  int64_t layer_offset = 0;  // bytes from a page's start to the layer's keys
  KeyValuePages pages;
  int64_t position = 0;                    // of the first row, from 0
  Tensor<const float, 3> q;                // [T, H, K], G divides H
  Tensor<const float, 3> position_scores;  // [T, H, W] by distance, W >= 0
  Tensor<const float, 3> k;                // [T, G, K]
  Tensor<const float, 3> v;                // [T, G, V]
  Tensor<float, 3> out;                    // [T, H, V]
};

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_ATTENTION_SOFTMAX_ATTENTION_H_
