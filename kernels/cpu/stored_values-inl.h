// Values in memory as vectors: loads and stores of float32 and bfloat16, and additions to pairs of
// float32. All code that adds positions to a state uses these functions, so that states are equal
// bit for bit.
#if defined(TVQ_KERNELS_CPU_STORED_VALUES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TVQ_KERNELS_CPU_STORED_VALUES_INL_H_
#undef TVQ_KERNELS_CPU_STORED_VALUES_INL_H_
#else
#define TVQ_KERNELS_CPU_STORED_VALUES_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/device/tensor.h"

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

// `value` as it reads back after it was stored in memory of type T.
template <typename T, class D>
HWY_INLINE hn::Vec<D> AsStored([[maybe_unused]] D d, hn::Vec<D> value) {
  if constexpr (sizeof(T) == sizeof(float)) return value;
  return hn::BitCast(d, hn::ShiftLeft<16>(BFloat16Bits(d, value)));
}

// sum + carry += x. Knuth's two-sum adds the rounding error to the carry; then sum takes as much of
// the carry as it can hold.
template <class D>
HWY_INLINE void TwoSum(D, hn::Vec<D> x, hn::Vec<D>& sum, hn::Vec<D>& carry) {
  const auto total = hn::Add(sum, x);
  const auto other = hn::Sub(total, sum);
  const auto error = hn::Add(hn::Sub(sum, hn::Sub(total, other)), hn::Sub(x, other));
  const auto rest = hn::Add(carry, error);
  sum = hn::Add(total, rest);
  carry = hn::Sub(rest, hn::Sub(sum, total));
}

// The same in memory; returns the sum.
template <class D>
HWY_INLINE hn::Vec<D> AddTwoSum(D d, hn::Vec<D> x, float* sum, float* carry) {
  auto s = hn::LoadU(d, sum);
  auto e = hn::LoadU(d, carry);
  TwoSum(d, x, s, e);
  hn::StoreU(s, d, sum);
  hn::StoreU(e, d, carry);
  return s;
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
