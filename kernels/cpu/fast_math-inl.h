// Vector mathematics and partial vectors, compiled once per instruction set: include after
// hwy/foreach_target.h, call inside tvq::HWY_NAMESPACE. A lane's result depends on that lane's
// input alone, so tails go through padded vectors, never through another scalar formula.
#if defined(TVQ_KERNELS_CPU_FAST_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TVQ_KERNELS_CPU_FAST_MATH_INL_H_
#undef TVQ_KERNELS_CPU_FAST_MATH_INL_H_
#else
#define TVQ_KERNELS_CPU_FAST_MATH_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/ops/linear.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// e^x in float32 within 2e-7 relative where the result is a normal number. Below -104 it is 0;
// above 88.7 infinity. NaN stays NaN.
template <class D, class V>
HWY_INLINE V FastExp(D d, V x) {
  // Highway's Exp is right up to 104 only; beyond, its power of two overflows into the sign.
  const V clamped = hn::IfThenElse(hn::Gt(x, hn::Set(d, 104.0F)), hn::Set(d, 104.0F), x);
  return hn::IfThenElse(hn::Eq(x, x), hn::Exp(d, clamped), x);
}

// x / (1 + e^-x).
template <class D, class V>
HWY_INLINE V FastSilu(D d, V x) {
  return hn::Div(x, hn::Add(hn::Set(d, 1.0F), FastExp(d, hn::Neg(x))));
}

// gelu by tanh (kernels/ops/linear.h): 0.5 (1 + tanh z) = 1 / (1 + e^-2z), which is good for small
// results, too.
template <class D, class V>
HWY_INLINE V FastGelu(D d, V x) {
  const V cubic = hn::Mul(hn::Mul(hn::Mul(x, x), x), hn::Set(d, kGeluCubic));
  const V z = hn::Mul(hn::Add(x, cubic), hn::Set(d, -2 * kGeluScale));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0F), FastExp(d, z)));
}

// 1 / (1 + e^-x).
template <class D, class V>
HWY_INLINE V FastSigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0F);
  return hn::Div(one, hn::Add(one, FastExp(d, hn::Neg(x))));
}

template <class D, class V>
HWY_INLINE V FastTanh(D d, V x) {
  return hn::IfThenElse(hn::Eq(x, x), hn::Tanh(d, x), x);
}

// max(x, 0)^2; NaN stays NaN.
template <class D, class V>
HWY_INLINE V SquaredRelu(D d, V x) {
  return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, x));
}

template <class D, class V>
HWY_INLINE V Activate(D d, Activation activation, V x) {
  switch (activation) {
    case Activation::kNone:
      break;
    case Activation::kSilu:
      return FastSilu(d, x);
    case Activation::kGelu:
      return FastGelu(d, x);
    case Activation::kTanh:
      return FastTanh(d, x);
    case Activation::kSigmoid:
      return FastSigmoid(d, x);
    case Activation::kSquaredRelu:
      return SquaredRelu(d, x);
  }
  return x;
}

// Loads the first `count` lanes; the others are zero. Reads nothing beyond.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadFirst(D d, const T* from, size_t count) {
  if (count >= hn::Lanes(d)) return hn::LoadU(d, from);
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)] = {};
  std::memcpy(lanes, from, count * sizeof(T));
  return hn::Load(d, lanes);
}

// Writes the first `count` lanes and nothing beyond.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void StoreFirst(hn::Vec<D> v, D d, T* to, size_t count) {
  if (count >= hn::Lanes(d)) return hn::StoreU(v, d, to);
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(v, d, lanes);
  std::memcpy(to, lanes, count * sizeof(T));
}

// x /= by, [count].
HWY_INLINE void DivideRow(float by, int64_t count, float* x) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto divisor = hn::Set(d, by);
  for (int64_t i = 0; i < count; i += lanes) {
    const auto rest = static_cast<size_t>(count - i);
    StoreFirst(hn::Div(LoadFirst(d, x + i, rest), divisor), d, x + i, rest);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#endif  // TVQ_KERNELS_CPU_FAST_MATH_INL_H_
