// The read copy of a VQ state (kernels/ops/attention/vq_attention.h). All code that changes exact
// rows (decode, prefill, restoring a state) uses these functions for the columns that it changed,
// so that copies are equal bit for bit. They are also equal on every instruction set, since each
// number takes one division, one product and one addition, rounded to nearest even.
#if defined(TVQ_KERNELS_CPU_VQ_ATTENTION_READ_COPY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TVQ_KERNELS_CPU_VQ_ATTENTION_READ_COPY_INL_H_
#undef TVQ_KERNELS_CPU_VQ_ATTENTION_READ_COPY_INL_H_
#else
#define TVQ_KERNELS_CPU_VQ_ATTENTION_READ_COPY_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/stored_values-inl.h"
#include "kernels/cpu/vq_attention/window.h"
#include "kernels/numbers/read_copy.h"
#include "kernels/ops/attention/vq_attention.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Quantizes `count` columns that share a scale; load(d, c) gives their exact values from the c-th
// column on.
template <class Load>
HWY_INLINE void QuantizeColumns(int64_t count, const Load& load, int8_t* HWY_RESTRICT to,
                                float* scale) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN float exact[kVqScaleColumns];
  int64_t c = 0;
  for (; c + lanes <= count; c += lanes) hn::StoreU(load(d, c), d, exact + c);
  for (; c < count; ++c) {
    const hn::CappedTag<float, 1> one;
    hn::StoreU(load(one, c), one, exact + c);
  }
  std::fill(exact + count, exact + kVqScaleColumns, 0.0F);

  // Compared by their bits: numbers that are not negative have the order of integers, and NaN is
  // above all of them.
  const hn::Rebind<int32_t, decltype(d)> di;
  auto bits = hn::Zero(di);
  for (c = 0; c < kVqScaleColumns; c += lanes) {
    bits = hn::Max(bits, hn::BitCast(di, hn::Abs(hn::LoadU(d, exact + c))));
  }
  const QuantizedScale quantized(hn::GetLane(hn::MaxOfLanes(di, bits)));
  *scale = quantized.scale;

  const auto quantize = [&](auto tag, int64_t column) HWY_ATTR {
    const hn::Rebind<int32_t, decltype(tag)> integer;
    const hn::Rebind<int8_t, decltype(tag)> narrow;
    const auto nearest =
        hn::Add(hn::Mul(hn::LoadU(tag, exact + column), hn::Set(tag, quantized.inverse)),
                hn::Set(tag, kRoundToInteger));
    const auto code = hn::Sub(hn::BitCast(integer, nearest), hn::Set(integer, kRoundedZero));
    hn::StoreU(hn::DemoteTo(narrow, code), narrow, to + column);
  };
  if (quantized.inverse == 0) {
    std::fill_n(to, count, int8_t{0});
    return;
  }
  for (c = 0; c + lanes <= count; c += lanes) quantize(d, c);
  for (; c < count; ++c) quantize(hn::CappedTag<float, 1>(), c);
}

// Quantizes columns [first, end) of a row. `first` is where a scale's columns begin; `end` is where
// a scale's columns or the row end.
template <class Load>
HWY_INLINE void QuantizeRow(int64_t first, int64_t end, const Load& load, int8_t* row,
                            float* scales) {
  for (int64_t c = first; c < end; c += kVqScaleColumns) {
    QuantizeColumns(
        std::min(kVqScaleColumns, end - c),
        [&](auto d, int64_t column) HWY_ATTR { return load(d, c + column); }, row + c,
        scales + c / kVqScaleColumns);
  }
}

// Makes the copy of a code of head g: the mean of what retired to it.
HWY_INLINE void CopyMean(const VqShape& shape, const VqState& state, int64_t g, int64_t code,
                         int64_t first, int64_t end) {
  const int64_t row = g * shape.codes + code;
  const float* sum = state.sum + row * shape.value;
  // The row of a code without positions is zero.
  const auto count = static_cast<float>(std::max<int64_t>(1, state.count[row]));
  QuantizeRow(
      first, end,
      [&](auto d, int64_t c) HWY_ATTR { return hn::Div(hn::LoadU(d, sum + c), hn::Set(d, count)); },
      state.mean + row * shape.value, state.mean_scale + row * shape.scales());
}

// Makes the copy of a slot of head g's window, whose values are of type T.
template <typename T>
HWY_INLINE void CopyRecent(const VqShape& shape, const VqState& state, int64_t g, int64_t slot,
                           int64_t first, int64_t end) {
  const int64_t row = g * shape.window + slot;
  const T* value = static_cast<const T*>(state.window_value) + row * shape.value;
  QuantizeRow(
      first, end, [&](auto d, int64_t c) HWY_ATTR { return LoadValues(d, value + c); },
      state.recent + row * shape.value, state.recent_scale + row * shape.scales());
}

// Updates the copy, if the state has one, after `position` was appended and a position with code
// `retired` left the window: columns [first, end) of both rows.
template <typename T>
HWY_INLINE void RefreshCopy(const VqShape& shape, const VqState& state, int64_t g, int64_t position,
                            int32_t retired, int64_t first, int64_t end) {
  if (shape.read == VqRead::kExact) return;
  CopyRecent<T>(shape, state, g, position % shape.window, first, end);
  if (retired != kNoCode) CopyMean(shape, state, g, retired, first, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
