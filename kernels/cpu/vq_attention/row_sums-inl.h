// Attention's second phase: weighted sums of the chosen rows of values, for the columns of one
// task. Each row is read once for all heads that share it, and later rows are prefetched while a
// group is added.
#if defined(TVQ_KERNELS_CPU_VQ_ATTENTION_ROW_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TVQ_KERNELS_CPU_VQ_ATTENTION_ROW_SUMS_INL_H_
#undef TVQ_KERNELS_CPU_VQ_ATTENTION_ROW_SUMS_INL_H_
#else
#define TVQ_KERNELS_CPU_VQ_ATTENTION_ROW_SUMS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/register_tile-inl.h"
#include "kernels/cpu/stored_values-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// So many rows are added together where heads share them, with one load and store of a sum for all
// of them.
inline constexpr int64_t kRowGroup = 8;
// How far ahead rows are prefetched: as far as the L1 cache has room beside the sums.
inline constexpr int64_t kAheadBytes = 12 << 10;
// The most columns of a task whose rows are added one by one: 8 KB of float32.
inline constexpr int64_t kWholeRowColumns = 2048;
inline constexpr int64_t kLineBytes = 64;

// Some rows of values and the sums they go to.
template <typename T>
struct RowSums {
  const T* base;  // row i at base + row[i] * stride, columns of the tile first
  int64_t stride;
  const int32_t* row;
  int64_t count;
  int64_t columns;      // of the tile
  int64_t heads;        // that share the rows
  const float* weight;  // of row i for head h: weight[h * weight_stride + i]
  int64_t weight_stride;
  float* out;  // sums of head h: out + h * out_stride
  int64_t out_stride;
  const T* Row(int64_t i) const { return base + row[i] * stride; }
};

template <typename T>
HWY_INLINE void PrefetchRow(const T* row, int64_t columns) {
  for (int64_t c = 0; c < columns; c += kLineBytes / static_cast<int64_t>(sizeof(T))) {
    __builtin_prefetch(row + c);
  }
}

// How far ahead of the rows being added the prefetch runs, in rows.
template <typename T>
HWY_INLINE int64_t RowsAhead(const RowSums<T>& s) {
  const int64_t bytes = s.columns * static_cast<int64_t>(sizeof(T));
  const int64_t rows = kAheadBytes / std::max<int64_t>(1, bytes);
  return s.heads > 1 ? std::max(kRowGroup, rows / kRowGroup * kRowGroup)
                     : std::max<int64_t>(1, rows);
}

template <typename T>
HWY_INLINE void PrefetchFirstRows(const RowSums<T>& s) {
  for (int64_t i = 0; i < std::min(RowsAhead(s), s.count); ++i) PrefetchRow(s.Row(i), s.columns);
}

// Adds rows [first, first + kRows) in order to the sums of kHeads heads from `head` on, which are
// in registers meanwhile, for kVectors vectors of columns from `column` on.
template <int kRows, int kVectors, int kHeads, typename T, class D>
HWY_INLINE void AddColumns(D d, const RowSums<T>& s, const T* const* row, int64_t first,
                           int64_t column, int64_t head) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* HWY_RESTRICT weight = s.weight + head * s.weight_stride + first;
  float* HWY_RESTRICT out = s.out + head * s.out_stride + column;
  hn::Vec<D> sum[kHeads][kVectors];
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) sum[h][j] = hn::LoadU(d, out + h * s.out_stride + j * lanes);
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    hn::Vec<D> values[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) values[j] = LoadValues(d, row[i] + column + j * lanes);
#pragma GCC unroll 8
    for (int h = 0; h < kHeads; ++h) {
      const auto by = hn::Set(d, weight[h * s.weight_stride + i]);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) sum[h][j] = hn::MulAdd(by, values[j], sum[h][j]);
    }
  }
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      hn::StoreU(sum[h][j], d, out + h * s.out_stride + j * lanes);
    }
  }
}

// The same for all heads: values are loaded once for as many heads as have room in registers.
template <int kRows, int kVectors, typename T, class D>
HWY_INLINE void AddColumnsOfHeads(D d, const RowSums<T>& s, const T* const* row, int64_t first,
                                  int64_t column) {
  int64_t h = 0;
  for (; h + 4 <= s.heads; h += 4) AddColumns<kRows, kVectors, 4>(d, s, row, first, column, h);
  switch (s.heads - h) {
    case 3:
      return AddColumns<kRows, kVectors, 3>(d, s, row, first, column, h);
    case 2:
      return AddColumns<kRows, kVectors, 2>(d, s, row, first, column, h);
    case 1:
      return AddColumns<kRows, kVectors, 1>(d, s, row, first, column, h);
    default:
      return;
  }
}

// out[h] += sum over rows [first, first + kRows) in order, of weight * row. Meanwhile prefetches
// the rows that are `ahead` rows further on, line by line. Not inlined: there would be ten copies
// of the code, which take minutes to compile with a sanitizer.
template <int kRows, typename T>
HWY_NOINLINE void AddRows(const RowSums<T>& s, int64_t first, int64_t ahead) {
  constexpr int64_t kLine = kLineBytes / static_cast<int64_t>(sizeof(T));
  const T* row[kRows];
  const T* next[kRows];
  for (int i = 0; i < kRows; ++i) {
    row[i] = s.Row(first + i);
    next[i] = s.Row(std::min(first + ahead + i, s.count - 1));
  }
  const auto fetch = [&](int64_t column) HWY_ATTR {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) __builtin_prefetch(next[i] + column);
  };
  int64_t c = 0;
  for (; c + kTileColumns <= s.columns; c += kTileColumns) {
    for (int64_t line = 0; line < kTileColumns; line += kLine) fetch(c + line);
    AddColumnsOfHeads<kRows, kTileVectors>(TileTag(), s, row, first, c);
  }
  for (; c + kTileLanes <= s.columns; c += kTileLanes) {
    if (c % kLine == 0) fetch(c);
    AddColumnsOfHeads<kRows, 1>(TileTag(), s, row, first, c);
  }
  for (; c < s.columns; ++c) {
    AddColumnsOfHeads<kRows, 1>(hn::CappedTag<float, 1>(), s, row, first, c);
  }
}

// Adds all rows in order. For one head each row is added alone, from its beginning to its end,
// which reads memory fastest (8 rows side by side are read a quarter slower). For several heads
// rows are added in groups, since a single row would be loaded again for every head. Calls
// `near_end` once, when as many rows are left as are prefetched ahead.
template <typename T, class NearEnd>
void AddAllRows(const RowSums<T>& sums, const NearEnd& near_end) {
  const int64_t ahead = RowsAhead(sums);
  int64_t i = 0;
  if (sums.heads > 1) {
    for (; i + kRowGroup + ahead <= sums.count; i += kRowGroup) {
      AddRows<kRowGroup>(sums, i, ahead);
    }
    near_end();
    for (; i + kRowGroup <= sums.count; i += kRowGroup) AddRows<kRowGroup>(sums, i, ahead);
  } else {
    for (; i + ahead < sums.count; ++i) AddRows<1>(sums, i, ahead);
    near_end();
  }
  for (; i < sums.count; ++i) AddRows<1>(sums, i, ahead);
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
