// C = A B or C += A B for a tile of C that lives in registers. A sum runs over the depth in order,
// one fused multiply-add after the other, whatever the size of the tile.
#if defined(TVQ_KERNELS_CPU_REGISTER_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TVQ_KERNELS_CPU_REGISTER_TILE_INL_H_
#undef TVQ_KERNELS_CPU_REGISTER_TILE_INL_H_
#else
#define TVQ_KERNELS_CPU_REGISTER_TILE_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/stored_values-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using TileTag = hn::CappedTag<float, 16>;
inline constexpr int64_t kTileLanes = static_cast<int64_t>(hn::MaxLanes(TileTag()));

// The largest tile: 6 x 4 vectors where there are 32 registers (24 sums, 4 of B, 1 of A), 6 x 2
// where there are 16.
inline constexpr int64_t kTileRows = 6;
#if HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON
inline constexpr int64_t kTileVectors = 4;
#else
inline constexpr int64_t kTileVectors = 2;
#endif
inline constexpr int64_t kTileColumns = kTileVectors * kTileLanes;

// One call of the tile kernel. Row r of A: a[r], contiguous in depth. Vector j of B at depth k:
// b + k * b_step + j * b_vector. Row r of C: c[r], contiguous.
template <typename T>
struct TileArgsOf {
  const float* a[kTileRows];
  const T* b;  // float, or BFloat16, widened
  int64_t b_step;
  int64_t b_vector;
  int64_t depth;
  bool accumulate;
  float* c[kTileRows];
  // If not null, memory that is read soon: at each depth k, kTileColumns elements from ahead + k *
  // ahead_step on are fetched, so that memory is never idle while the tile computes.
  const T* ahead = nullptr;
  int64_t ahead_step = 0;
};
using TileArgs = TileArgsOf<float>;

template <int kRows, int kVectors, bool kAhead, typename T>
HWY_NOINLINE void ComputeTile(const TileArgsOf<T>& args) {
  const TileTag d;
  using V = hn::Vec<TileTag>;
  const float* HWY_RESTRICT a[kRows];
  V sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    a[r] = args.a[r];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      sum[r][j] = args.accumulate ? hn::LoadU(d, args.c[r] + j * kTileLanes) : hn::Zero(d);
    }
  }
  const T* HWY_RESTRICT b = args.b;
  const int64_t step = args.b_step;
  const int64_t vector = args.b_vector;
  const int64_t depth = args.depth;
  const T* ahead = args.ahead;
  for (int64_t k = 0; k < depth; ++k, b += step) {
    if constexpr (kAhead) {
      constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
#pragma GCC unroll 8
      for (int64_t i = 0; i < kTileColumns; i += kLine) __builtin_prefetch(ahead + i);
      ahead += args.ahead_step;
    }
    V column[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) column[j] = LoadValues(d, b + j * vector);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const V x = hn::Set(d, a[r][k]);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) sum[r][j] = hn::MulAdd(x, column[j], sum[r][j]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) hn::StoreU(sum[r][j], d, args.c[r] + j * kTileLanes);
  }
}

template <int kRows, typename T>
void ComputeTileOfRows(int64_t vectors, const TileArgsOf<T>& args) {
  if (vectors == kTileVectors && args.ahead != nullptr) {
    return ComputeTile<kRows, kTileVectors, true>(args);
  }
  if (vectors == kTileVectors) return ComputeTile<kRows, kTileVectors, false>(args);
  if (vectors == 1) return ComputeTile<kRows, 1, false>(args);
  if (vectors == 2) return ComputeTile<kRows, 2, false>(args);
  return ComputeTile<kRows, 3, false>(args);
}

// rows: 1 .. kTileRows; vectors: 1 .. kTileVectors.
template <typename T>
void ComputeTile(int64_t rows, int64_t vectors, const TileArgsOf<T>& args) {
  if (rows == 6) return ComputeTileOfRows<6>(vectors, args);
  if (rows == 5) return ComputeTileOfRows<5>(vectors, args);
  if (rows == 4) return ComputeTileOfRows<4>(vectors, args);
  if (rows == 3) return ComputeTileOfRows<3>(vectors, args);
  if (rows == 2) return ComputeTileOfRows<2>(vectors, args);
  return ComputeTileOfRows<1>(vectors, args);
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
