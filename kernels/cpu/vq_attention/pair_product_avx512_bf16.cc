#include "kernels/cpu/vq_attention/pair_product.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>

#define TVQ_BF16_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

namespace tvq {
namespace {

// 24 sums, 4 vectors of values and a pair of weights are in registers.
constexpr int64_t kRows = 6;
constexpr int64_t kLanes = 16;
constexpr int kVectors = kPackColumns / kLanes;

struct Tile {
  const BFloat16* weight[kRows];
  float* out[kRows];
  const float* scale;  // [rows], or null
  const RowPair* pairs;
  int64_t count;  // of pairs
  int64_t columns;
  bool accumulate;

  // The lanes of a vector that are columns of the tile.
  __mmask16 Mask(int vector) const {
    const int64_t rest = std::clamp<int64_t>(columns - vector * kLanes, 0, kLanes);
    return static_cast<__mmask16>((1U << rest) - 1);
  }
};

template <int R>
TVQ_BF16_TARGET void MultiplyTile(const Tile& tile) {
  const char* weight[R];
  __m512 sum[R][kVectors];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    weight[r] = reinterpret_cast<const char*>(tile.weight[r]);
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      sum[r][j] = tile.accumulate ? _mm512_maskz_loadu_ps(tile.Mask(j), tile.out[r] + j * kLanes)
                                  : _mm512_setzero_ps();
    }
  }
  const RowPair* pairs = tile.pairs;
  for (int64_t k = 0; k < tile.count; ++k, ++pairs) {
    __m512bh value[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      value[j] = (__m512bh)_mm512_load_si512(*pairs + j * kLanes);
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      int two;
      __builtin_memcpy(&two, weight[r] + k * 4, sizeof(two));
      const __m512bh w = (__m512bh)_mm512_set1_epi32(two);
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sum[r][j] = _mm512_dpbf16_ps(sum[r][j], w, value[j]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    const __m512 scale = _mm512_set1_ps(tile.scale == nullptr ? 1.0F : tile.scale[r]);
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      _mm512_mask_storeu_ps(tile.out[r] + j * kLanes, tile.Mask(j),
                            _mm512_mul_ps(sum[r][j], scale));
    }
  }
}

using TileFunction = void (*)(const Tile& tile);
constexpr TileFunction kByRows[kRows] = {MultiplyTile<1>, MultiplyTile<2>, MultiplyTile<3>,
                                         MultiplyTile<4>, MultiplyTile<5>, MultiplyTile<6>};

}  // namespace

void MultiplyPairs(const QueryRowsOf<BFloat16>& queries, const float* scale, int64_t offset,
                   int64_t depth, const RowPair* pairs, int64_t columns, bool accumulate) {
  Tile tile{};
  tile.pairs = pairs;
  tile.columns = columns;
  tile.accumulate = accumulate;
  for (int64_t r = 0; r < queries.count; r += kRows) {
    const int64_t rows = std::min(kRows, queries.count - r);
    queries.Prefetch(r + kRows, r + 2 * kRows, offset, depth);
    const int64_t left = queries.Depth(r, r + rows) - offset;
    if (left <= 0) continue;
    tile.count = (std::min(left, depth) + 1) / 2;
    tile.scale = left <= depth ? scale + r : nullptr;
    for (int64_t i = 0; i < rows; ++i) {
      tile.weight[i] = queries.Weights(r + i) + offset;
      tile.out[i] = queries.Out(r + i);
    }
    kByRows[rows - 1](tile);
  }
}

}  // namespace tvq

#else

#include <cstdlib>

namespace tvq {

void MultiplyPairs(const QueryRowsOf<BFloat16>&, const float*, int64_t, int64_t, const RowPair*,
                   int64_t, bool) {
  std::abort();
}

}  // namespace tvq

#endif
