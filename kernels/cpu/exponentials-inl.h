// Softmax over a run of scores: their maximum, then their exponentials and the sum of these.
#if defined(TVQ_KERNELS_CPU_EXPONENTIALS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TVQ_KERNELS_CPU_EXPONENTIALS_INL_H_
#undef TVQ_KERNELS_CPU_EXPONENTIALS_INL_H_
#else
#define TVQ_KERNELS_CPU_EXPONENTIALS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "kernels/cpu/fast_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Runs are aligned, and padded to a multiple of the lanes of the widest vector.
inline constexpr int64_t kWeightPad = 16;
using WeightTag = hn::CappedTag<float, static_cast<size_t>(kWeightPad)>;

// The largest of weight[0 .. count) and of `least`, in every lane.
HWY_INLINE hn::Vec<WeightTag> LargestWeight(const float* HWY_RESTRICT weight, int64_t count,
                                            hn::Vec<WeightTag> least) {
  const WeightTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto maximum = least;
  for (int64_t k = 0; k < count; k += lanes) {
    const auto valid = hn::FirstN(d, static_cast<size_t>(std::min(count - k, lanes)));
    maximum = hn::Max(maximum, hn::IfThenElse(valid, hn::Load(d, weight + k), least));
  }
  return hn::MaxOfLanes(d, maximum);
}

// weight[k] = exp(weight[k] - maximum), 0 in the padding. Returns `sum` plus the sums of weight *
// count, lane by lane. `counts` may be null: then every count is 1.
HWY_INLINE hn::Vec<WeightTag> Exponentials(hn::Vec<WeightTag> maximum, int64_t count,
                                           const float* HWY_RESTRICT counts,
                                           float* HWY_RESTRICT weight, hn::Vec<WeightTag> sum) {
  const WeightTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t k = 0; k < count; k += lanes) {
    const auto valid = hn::FirstN(d, static_cast<size_t>(std::min(count - k, lanes)));
    const auto e = hn::IfThenElseZero(valid, FastExp(d, hn::Sub(hn::Load(d, weight + k), maximum)));
    hn::Store(e, d, weight + k);
    sum = counts == nullptr ? hn::Add(sum, e) : hn::MulAdd(e, hn::Load(d, counts + k), sum);
  }
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
