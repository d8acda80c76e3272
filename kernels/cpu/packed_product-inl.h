// The product of many queries' weights and rows of values, for prefill. Rows are packed into the
// cache once, a tile of columns at a time, and multiplied with the weights of all queries.
#if defined(TVQ_KERNELS_CPU_PACKED_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TVQ_KERNELS_CPU_PACKED_PRODUCT_INL_H_
#undef TVQ_KERNELS_CPU_PACKED_PRODUCT_INL_H_
#else
#define TVQ_KERNELS_CPU_PACKED_PRODUCT_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/query_rows.h"
#include "kernels/cpu/register_tile-inl.h"
#include "kernels/cpu/stored_values-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of values that are packed at a time: 128 x 64 floats are 32 KB, which stay in the L1 cache
// while they are multiplied with the weights of all queries.
inline constexpr int64_t kPackRows = 128;
// Rows of a tile lie a whole row of values apart, which no hardware prefetcher follows. So they are
// prefetched this many rows ahead.
inline constexpr int64_t kPackAhead = 16;
static_assert(kPackColumns % kTileColumns == 0);

// Rows of values as they lie in memory: row k of a run at base + row[k] * stride, or, without
// `row`, at base + k * stride.
template <typename T>
struct ValueRows {
  const T* base;
  int64_t stride;
  const int32_t* row;
  int64_t count;
  const T* operator[](int64_t k) const { return base + (row == nullptr ? k : row[k]) * stride; }
};

// Packs `columns` of rows [first, first + count) as [count][kPackColumns] floats, with zeros in the
// other columns. Values are rounded to what a `Stored` can hold, whatever the type in which they
// lie.
template <typename Stored, typename T>
HWY_INLINE void Pack(const ValueRows<T>& rows, int64_t first, int64_t count, int64_t columns,
                     float* HWY_RESTRICT packed) {
  const TileTag d;
  for (int64_t k = 0; k < count; ++k, packed += kPackColumns) {
    const T* row = rows[first + k];
    const T* ahead = rows[std::min(first + k + kPackAhead, rows.count - 1)];
    for (int64_t c = 0; c < columns; c += kPackLineBytes / static_cast<int64_t>(sizeof(T))) {
      __builtin_prefetch(ahead + c);
    }
    int64_t c = 0;
    for (; c + kTileLanes <= columns; c += kTileLanes) {
      hn::Store(AsStored<Stored>(d, LoadValues(d, row + c)), d, packed + c);
    }
    const hn::CappedTag<float, 1> d1;
    for (; c < columns; ++c) {
      hn::StoreU(AsStored<Stored>(d1, LoadValues(d1, row + c)), d1, packed + c);
    }
    std::fill(packed + c, packed + kPackColumns, 0.0F);
  }
}

using QueryRows = QueryRowsOf<float>;

// out (+)= weight[:, offset .. offset + depth) x packed [depth][kPackColumns].
inline void MultiplyPacked(const QueryRows& queries, int64_t offset, int64_t depth,
                           const float* packed, int64_t columns, bool accumulate) {
  HWY_ALIGN float edge[kTileRows * kTileColumns];
  TileArgs tile;
  tile.b_step = kPackColumns;
  tile.b_vector = kTileLanes;
  tile.accumulate = accumulate;
  for (int64_t r = 0; r < queries.count; r += kTileRows) {
    const int64_t rows = std::min(kTileRows, queries.count - r);
    queries.Prefetch(r + kTileRows, r + 2 * kTileRows, offset, depth);
    tile.depth = std::clamp<int64_t>(queries.Depth(r, r + rows) - offset, 0, depth);
    if (tile.depth == 0 && accumulate) continue;
    for (int64_t i = 0; i < rows; ++i) {
      tile.a[i] = queries.Weights(r + i) + offset;
    }
    for (int64_t c = 0; c < columns; c += kTileColumns) {
      const int64_t width = std::min(kTileColumns, columns - c);
      const bool whole = width == kTileColumns;
      tile.b = packed + c;
      for (int64_t i = 0; i < rows; ++i) {
        float* out = queries.Out(r + i) + c;
        tile.c[i] = whole ? out : edge + i * kTileColumns;
        if (!whole && accumulate) std::copy_n(out, width, tile.c[i]);
      }
      ComputeTile(rows, kTileVectors, tile);
      for (int64_t i = 0; !whole && i < rows; ++i) {
        std::copy_n(tile.c[i], width, queries.Out(r + i) + c);
      }
    }
  }
}

// out (+)= weights from `offset` on x the run's rows. Returns whether the run has any rows.
template <typename Stored, typename T>
bool MultiplyRun(const QueryRows& queries, int64_t offset, const ValueRows<T>& rows,
                 int64_t columns, bool accumulate) {
  HWY_ALIGN float packed[kPackRows * kPackColumns];
  for (int64_t first = 0; first < rows.count; first += kPackRows) {
    const int64_t count = std::min(kPackRows, rows.count - first);
    Pack<Stored>(rows, first, count, columns, packed);
    MultiplyPacked(queries, offset + first, count, packed, columns, accumulate || first > 0);
  }
  return rows.count > 0;
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
