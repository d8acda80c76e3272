// Rows of features, padded to whole vectors, and the additions to b. Decode and prefill both come
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

// Features of one head take so many floats, from an aligned address on; those beyond F are 0.
inline int64_t PadFeatures(int64_t count) {
  return (count + kFeaturePad - 1) / kFeaturePad * kFeaturePad;
}

// x [count], features [PadFeatures(count)].
HWY_INLINE void CopyFeatures(const float* x, int64_t count, float* features) {
  std::copy_n(x, count, features);
  std::fill(features + count, features + PadFeatures(count), 0.0F);
}

// b += features, of one head.
HWY_INLINE void AppendKey(const float* features, int64_t count, float* sum, float* carry) {
  const FeatureTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    AddTwoSum(d, hn::Load(d, features + i), sum + i, carry + i);
  const hn::CappedTag<float, 1> d1;
  for (; i < count; ++i) AddTwoSum(d1, hn::Load(d1, features + i), sum + i, carry + i);
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

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
