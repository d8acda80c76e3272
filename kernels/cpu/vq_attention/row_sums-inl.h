// Attention's second phase: weighted sums of chosen rows of values, columns of which belong to one
// task. Each row is read once for all heads that share it, and the rows to come are fetched while
// one group is added.
#if defined(TVQ_KERNELS_CPU_VQ_ATTENTION_ROW_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TVQ_KERNELS_CPU_VQ_ATTENTION_ROW_SUMS_INL_H_
#undef TVQ_KERNELS_CPU_VQ_ATTENTION_ROW_SUMS_INL_H_
#else
#define TVQ_KERNELS_CPU_VQ_ATTENTION_ROW_SUMS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/stored_values-inl.h"
#include "kernels/ops/vq_attention.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows that pass together: one load and store of a sum for 8 rows.
inline constexpr int64_t kRowGroup = 8;
inline constexpr int64_t kLineBytes = 64;

// Some rows of values and the sums they go to. Rows of int8 have a scale for each kVqScaleColumns.
template <typename T>
struct RowSums {
  static constexpr bool kScaled = sizeof(T) == 1;
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
  const float* scales = nullptr;  // of row i at scales + row[i] * scale_stride, the tile's first
  int64_t scale_stride = 0;
  const T* Row(int64_t i) const { return base + row[i] * stride; }
  const float* Scales(int64_t i) const { return scales + row[i] * scale_stride; }
};

template <class D>
HWY_INLINE hn::Vec<D> LoadValues(D d, const int8_t* from) {
  const hn::Rebind<int8_t, D> narrow;
  const hn::Rebind<int32_t, D> integer;
  return hn::ConvertTo(d, hn::PromoteTo(integer, hn::LoadU(narrow, from)));
}

template <typename T>
HWY_INLINE void PrefetchRow(const T* row, int64_t columns) {
  for (int64_t c = 0; c < columns; c += kLineBytes / static_cast<int64_t>(sizeof(T))) {
    __builtin_prefetch(row + c);
  }
}

// Asks for the first group of rows.
template <typename T>
HWY_INLINE void PrefetchFirstRows(const RowSums<T>& s) {
  for (int64_t i = 0; i < std::min(kRowGroup, s.count); ++i) {
    PrefetchRow(s.Row(i), s.columns);
    if constexpr (RowSums<T>::kScaled) PrefetchRow(s.Scales(i), s.scale_stride);
  }
}

// out[h] += sum over rows [first, first + kRows) in order, of weight * row. The rows of the next
// group are asked for meanwhile, line by line.
template <int kRows, typename T>
HWY_INLINE void AddRows(const RowSums<T>& s, int64_t first) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr bool kScaled = RowSums<T>::kScaled;
  constexpr int64_t kLine = kLineBytes / static_cast<int64_t>(sizeof(T));
  static_assert(!kScaled || kLine == kVqScaleColumns);
  const T* row[kRows];
  const T* next[kRows];
  const float* scales[kRows];
  for (int i = 0; i < kRows; ++i) {
    const int64_t after = std::min(first + kRows + i, s.count - 1);
    row[i] = s.Row(first + i);
    next[i] = s.Row(after);
    if constexpr (kScaled) {
      scales[i] = s.Scales(first + i);
      PrefetchRow(s.Scales(after), s.scale_stride);
    }
  }
  for (int64_t h = 0; h < s.heads; ++h) {
    const float* weight = s.weight + h * s.weight_stride + first;
    float factor[kRows];  // of the values of a line
    for (int i = 0; i < kRows; ++i) factor[i] = weight[i];
    const auto scale_line = [&](int64_t c) {
      if constexpr (kScaled) {
        for (int i = 0; i < kRows; ++i) factor[i] = weight[i] * scales[i][c / kVqScaleColumns];
      }
    };
    float* HWY_RESTRICT out = s.out + h * s.out_stride;
    const auto add = [&](auto tag, int64_t c) HWY_ATTR {
      auto sum = hn::LoadU(tag, out + c);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) {
        sum = hn::MulAdd(hn::Set(tag, factor[i]), LoadValues(tag, row[i] + c), sum);
      }
      hn::StoreU(sum, tag, out + c);
    };
    int64_t c = 0;
    for (; c + kLine <= s.columns; c += kLine) {
      if (h == 0) {
#pragma GCC unroll 8
        for (int i = 0; i < kRows; ++i) __builtin_prefetch(next[i] + c);
      }
      scale_line(c);
      for (int64_t j = 0; j < kLine; j += lanes) add(d, c + j);
    }
    if (c < s.columns) scale_line(c);
    for (; c + lanes <= s.columns; c += lanes) add(d, c);
    for (; c < s.columns; ++c) add(hn::CappedTag<float, 1>(), c);
  }
}

// Calls `near_end` once, when about a group of rows is left.
template <typename T, class NearEnd>
void AddAllRows(const RowSums<T>& sums, const NearEnd& near_end) {
  int64_t i = 0;
  for (; i + 2 * kRowGroup <= sums.count; i += kRowGroup) AddRows<kRowGroup>(sums, i);
  near_end();
  for (; i + kRowGroup <= sums.count; i += kRowGroup) AddRows<kRowGroup>(sums, i);
  for (; i < sums.count; ++i) AddRows<1>(sums, i);
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
