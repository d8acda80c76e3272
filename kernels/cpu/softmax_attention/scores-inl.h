// Products of queries with the keys of a page, which lie in panels.
#if defined(TVQ_KERNELS_CPU_SOFTMAX_ATTENTION_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TVQ_KERNELS_CPU_SOFTMAX_ATTENTION_SCORES_INL_H_
#undef TVQ_KERNELS_CPU_SOFTMAX_ATTENTION_SCORES_INL_H_
#else
#define TVQ_KERNELS_CPU_SOFTMAX_ATTENTION_SCORES_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/register_tile-inl.h"
#include "kernels/ops/attention/softmax_attention.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

// A tile's vectors are panels, or parts of one.
static_assert(kTileLanes == kKeyPanel || kKeyPanel % kTileColumns == 0);

// tile.c[r][s] = tile.a[r] . key s for s in [0, count); behind these, up to a multiple of
// kTileColumns, any values are written. `panels` starts at a slot that is a multiple of
// kTileColumns; slots beyond `count` may hold anything. The caller sets a and c of `tile`. If
// `then` is not null, each tile prefetches the keys of the next one, and the last tile prefetches
// key * kTileColumns elements from `then` on.
template <typename T>
void ScoreKeys(const T* panels, int64_t key, int64_t count, int64_t rows, TileArgsOf<T> tile,
               const T* then = nullptr) {
  tile.ahead_step = kTileColumns;
  tile.b_step = kKeyPanel;
  tile.b_vector = kTileLanes == kKeyPanel ? kKeyPanel * key : kTileLanes;
  tile.depth = key;
  tile.accumulate = false;
  for (int64_t s = 0; s < count; s += kTileColumns) {
    tile.b = panels + s / kKeyPanel * kKeyPanel * key + s % kKeyPanel;
    if (then != nullptr) {
      tile.ahead = s + kTileColumns < count ? panels + (s + kTileColumns) * key : then;
    }
    ComputeTile(rows, kTileVectors, tile);
    for (int64_t r = 0; r < rows; ++r) tile.c[r] += kTileColumns;
  }
}

// scores[s] += position_scores[distance of slot s] for slots [0, count) within reach; slot 0 lies
// `distance` positions before the query's.
inline void AddPositionScores(const float* HWY_RESTRICT position_scores, int64_t window,
                              int64_t distance, int64_t count, float* HWY_RESTRICT scores) {
  for (int64_t s = std::max<int64_t>(0, distance - window + 1); s < count; ++s) {
    scores[s] += position_scores[distance - s];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
