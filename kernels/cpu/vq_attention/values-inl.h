// The values' part of appending a position. Decode and prefill write states through AppendValues,
// so that they are equal bit for bit.
#if defined(TVQ_KERNELS_CPU_VQ_ATTENTION_VALUES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TVQ_KERNELS_CPU_VQ_ATTENTION_VALUES_INL_H_
#undef TVQ_KERNELS_CPU_VQ_ATTENTION_VALUES_INL_H_
#else
#define TVQ_KERNELS_CPU_VQ_ATTENTION_VALUES_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/stored_values-inl.h"
#include "kernels/cpu/vq_attention/window.h"
#include "kernels/ops/attention/vq_attention.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Where one head's new value goes, and where the one that leaves goes: pointers to rows of V
// numbers.
template <typename T>
struct AppendRows {
  T* slot;     // in: the value that retires; out: the new one
  float* sum;  // U of the retired code; null when nothing retires
  float* carry;
};

template <typename T>
AppendRows<T> RowsOf(const VqShape& shape, const VqState& state, int64_t g, int64_t position,
                     int32_t retired) {
  AppendRows<T> rows{static_cast<T*>(state.window_value) +
                         (g * shape.window + position % shape.window) * shape.value,
                     nullptr, nullptr};
  if (retired != kNoCode) {
    const int64_t u = (g * shape.codes + retired) * shape.value;
    rows.sum = state.sum + u;
    rows.carry = state.carry + u;
  }
  return rows;
}

// Columns [first, end) of one position: what lies in the slot is added to U, and v takes its place.
template <typename T>
HWY_INLINE void AppendValues(const AppendRows<T>& rows, const float* v, int64_t first,
                             int64_t end) {
  const auto append = [&](auto d, int64_t c) HWY_ATTR {
    if (rows.sum != nullptr) {
      AddTwoSum(d, LoadValues(d, rows.slot + c), rows.sum + c, rows.carry + c);
    }
    StoreValues(d, hn::LoadU(d, v + c), rows.slot + c);
  };
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = first;
  for (; c + lanes <= end; c += lanes) append(d, c);
  for (; c < end; ++c) append(hn::CappedTag<float, 1>(), c);
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
