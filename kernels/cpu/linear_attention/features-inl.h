// Rows of features, padded to whole vectors, and the additions to b. Decode and prefill both use
// these functions, so that states are equal bit for bit.
#if defined(TVQ_KERNELS_CPU_LINEAR_ATTENTION_FEATURES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TVQ_KERNELS_CPU_LINEAR_ATTENTION_FEATURES_INL_H_
#undef TVQ_KERNELS_CPU_LINEAR_ATTENTION_FEATURES_INL_H_
#else
#define TVQ_KERNELS_CPU_LINEAR_ATTENTION_FEATURES_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "kernels/cpu/fast_math-inl.h"
#include "kernels/cpu/stored_values-inl.h"
#include "kernels/ops/attention/linear_attention.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kFeaturePad = 16;
using FeatureTag = hn::CappedTag<float, static_cast<size_t>(kFeaturePad)>;

// How many floats the features of one head take, from an aligned address on; those beyond F are 0.
inline int64_t PadFeatures(int64_t count) {
  return (count + kFeaturePad - 1) / kFeaturePad * kFeaturePad;
}

// x [count], features [PadFeatures(count)].
HWY_INLINE void CopyFeatures(const float* x, int64_t count, float* features) {
  std::copy_n(x, count, features);
  std::fill(features + count, features + PadFeatures(count), 0.0F);
}

// features [PadFeatures(count)] = e^(features - the largest that is reached); 0 where not reached.
// reached(i) is a mask of the vector of features from i on, false beyond `count`.
template <class Reached>
HWY_INLINE void ExponentiateReached(int64_t count, const Reached& reached, float* features) {
  const FeatureTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto lowest = hn::Set(d, std::numeric_limits<float>::lowest());
  auto largest = lowest;
  for (int64_t i = 0; i < count; i += lanes) {
    largest = hn::Max(largest, hn::IfThenElse(reached(i), hn::Load(d, features + i), lowest));
  }
  const auto most = hn::MaxOfLanes(d, largest);
  for (int64_t i = 0; i < count; i += lanes) {
    const auto e = FastExp(d, hn::Sub(hn::Load(d, features + i), most));
    hn::Store(hn::IfThenElseZero(reached(i), e), d, features + i);
  }
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
