// Rows of values as vectors: loads and stores of float32 and bfloat16, and the values' part of
// appending a position. Every way in which positions come (decode, prefill, append) writes states
// through AppendValues, so that they are equal bit for bit.
#if defined(TVQ_KERNELS_CPU_VQ_ATTENTION_VALUES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TVQ_KERNELS_CPU_VQ_ATTENTION_VALUES_INL_H_
#undef TVQ_KERNELS_CPU_VQ_ATTENTION_VALUES_INL_H_
#else
#define TVQ_KERNELS_CPU_VQ_ATTENTION_VALUES_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/vq_attention/window.h"
#include "kernels/ops/vq_attention.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> LoadValues(D d, const float* from) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE hn::Vec<D> LoadValues(D d, const BFloat16* from) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::Rebind<uint32_t, D> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

// The bits of `value` rounded to bfloat16 as ToBFloat16 does, in the lower halves.
template <class D>
HWY_INLINE hn::Vec<hn::Rebind<uint32_t, D>> BFloat16Bits(D, hn::Vec<D> value) {
  const hn::Rebind<uint32_t, D> d32;
  const auto bits = hn::BitCast(d32, value);
  const auto upper = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(upper, hn::Set(d32, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fff))));
  // Not Ne: Highway's is false for NaN on some targets.
  const auto number = hn::RebindMask(d32, hn::Eq(value, value));
  return hn::IfThenElse(number, rounded, hn::Or(upper, hn::Set(d32, 0x40)));
}

template <class D>
HWY_INLINE void StoreValues(D d, hn::Vec<D> value, float* to) {
  hn::StoreU(value, d, to);
}

template <class D>
HWY_INLINE void StoreValues(D d, hn::Vec<D> value, BFloat16* to) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::Rebind<int32_t, D> di;
  const auto narrow = hn::DemoteTo(d16, hn::BitCast(di, BFloat16Bits(d, value)));
  hn::StoreU(narrow, d16, reinterpret_cast<uint16_t*>(to));
}

// What reading `value` back from a window of T gives.
template <typename T, class D>
HWY_INLINE hn::Vec<D> AsStored([[maybe_unused]] D d, hn::Vec<D> value) {
  if constexpr (sizeof(T) == sizeof(float)) return value;
  return hn::BitCast(d, hn::ShiftLeft<16>(BFloat16Bits(d, value)));
}

// sum + carry += x: Knuth's two-sum, the error into the carry, then sum takes what it can hold.
template <class D>
HWY_INLINE void AddTwoSum(D d, hn::Vec<D> x, float* sum, float* carry) {
  const auto s = hn::LoadU(d, sum);
  const auto total = hn::Add(s, x);
  const auto other = hn::Sub(total, s);
  const auto error = hn::Add(hn::Sub(s, hn::Sub(total, other)), hn::Sub(x, other));
  const auto rest = hn::Add(hn::LoadU(d, carry), error);
  const auto result = hn::Add(total, rest);
  hn::StoreU(result, d, sum);
  hn::StoreU(hn::Sub(rest, hn::Sub(result, total)), d, carry);
}

// Where one head's position goes, and what leaves: pointers to rows of V.
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

// Columns [first, end) of one position: what lies in the slot goes to U, v takes its place.
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
