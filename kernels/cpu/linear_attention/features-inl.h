// phi(x) = elu(x) + 1 of keys and queries, and the additions to b. Decode and prefill both come
// through here, so that states are equal bit for bit.
#if defined(TVQ_KERNELS_CPU_LINEAR_ATTENTION_FEATURES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TVQ_KERNELS_CPU_LINEAR_ATTENTION_FEATURES_INL_H_
#undef TVQ_KERNELS_CPU_LINEAR_ATTENTION_FEATURES_INL_H_
#else
#define TVQ_KERNELS_CPU_LINEAR_ATTENTION_FEATURES_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/fast_math-inl.h"
#include "kernels/cpu/stored_values-inl.h"
#include "kernels/ops/linear_attention.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kFeaturePad = 16;
using FeatureTag = hn::CappedTag<float, static_cast<size_t>(kFeaturePad)>;

// Features of one head take so many floats, from an aligned address on; those beyond K are 0.
inline int64_t PadFeatures(int64_t key) {
  return (key + kFeaturePad - 1) / kFeaturePad * kFeaturePad;
}

// x [key], features [PadFeatures(key)].
HWY_INLINE void ComputeFeatures(const float* x, int64_t key, float* HWY_RESTRICT features) {
  const FeatureTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto zero = hn::Zero(d);
  const auto one = hn::Set(d, 1.0F);
  for (int64_t i = 0; i < PadFeatures(key); i += lanes) {
    const auto count = static_cast<size_t>(std::max<int64_t>(key - i, 0));
    const auto v = LoadFirst(d, x + std::min(i, key), count);
    const auto feature = hn::IfThenElse(hn::Gt(v, zero), hn::Add(v, one), FastExp(d, v));
    hn::Store(hn::IfThenElseZero(hn::FirstN(d, count), feature), d, features + i);
  }
}

// b += features, of one head.
HWY_INLINE void AppendKey(const float* features, int64_t key, float* sum, float* carry) {
  const FeatureTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= key; i += lanes) AddTwoSum(d, hn::Load(d, features + i), sum + i, carry + i);
  const hn::CappedTag<float, 1> d1;
  for (; i < key; ++i) AddTwoSum(d1, hn::Load(d1, features + i), sum + i, carry + i);
}

// a . b; a aligned and padded with zeros, b [count].
HWY_INLINE float DotFeatures(const float* a, const float* b, int64_t count) {
  const FeatureTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);
  for (int64_t i = 0; i < count; i += lanes) {
    sum = hn::MulAdd(hn::Load(d, a + i), LoadFirst(d, b + i, static_cast<size_t>(count - i)), sum);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// x /= by, [count].
HWY_INLINE void DivideRow(float by, int64_t count, float* x) {
  const FeatureTag d;
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

#endif  // per-target include guard
