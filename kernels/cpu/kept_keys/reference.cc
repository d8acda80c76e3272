// Naive float64 loops.
#include <algorithm>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/softmax_attention/pages.h"
#include "kernels/ops/attention/kept_keys.h"

namespace tvq {
namespace {

template <typename T>
void Row(const KeptKeysArgs& args, const KeyValuePages& pages, int64_t n) {
  const KeyValueShape& shape = args.shape;
  const LayerPages<T> layer{shape, args.layer_offset, pages};
  const auto [rows, heads, key] = args.q.shape;
  const int64_t position = args.positions.data[n], window = args.position_scores.dim(2);
  for (int64_t g = 0; g < shape.kv_heads; ++g) {
    float* const page_k = args.page_k.row(n) + g * shape.key;
    std::copy_n(args.k.row(n) + g * key, key, page_k);
    std::copy_n(args.k_plain.row(n) + g * key, key, page_k + key);
    WriteKey(layer, g, position, page_k);
  }
  const bool far = position >= args.longest_trained;
  for (int64_t h = 0; h < heads; ++h) {
    const float* const q = args.q.row(n) + h * key;
    const float* const q_far = args.q_far.row(n) + h * key;
    float* const page_q = args.page_q.row(n) + h * shape.key;
    std::fill_n(page_q, shape.key, 0.0F);
    std::copy_n(far ? q_far : q, key, far ? page_q + key : page_q);
    float* const out = args.position_scores.row(n) + h * window;
    for (int64_t d = 0; d < std::min(window, position + 1); ++d) {
      const int64_t at = position - d;
      const T* k = layer.Keys(at / kKeyValuePage, h / (heads / shape.kv_heads)) +
                   shape.KeyIndex(0, at % kKeyValuePage, 0);
      double score = 0;
      for (int64_t i = 0; far && i < key; ++i) {
        score += double{q[i]} * Widen(k[i * kKeyPanel]);
        score -= double{q_far[i]} * Widen(k[(key + i) * kKeyPanel]);
      }
      out[d] = static_cast<float>(score);
    }
  }
}

}  // namespace

absl::Status ReferenceKeptKeys(Device&, const KeptKeysArgs& args) {
  for (int64_t n = 0; n < args.positions.size(); ++n) {
    const KeyValuePages& pages = args.sessions.empty() ? args.pages : args.sessions.data[n];
    if (pages.none()) continue;
    if (args.shape.dtype == DType::kFloat32) {
      Row<float>(args, pages, n);
    } else {
      Row<BFloat16>(args, pages, n);
    }
  }
  return absl::OkStatus();
}

}  // namespace tvq
