// Softmax weights in bfloat16, of many queries of the same keys.
#if defined(TVQ_KERNELS_CPU_VQ_ATTENTION_ROUNDED_WEIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TVQ_KERNELS_CPU_VQ_ATTENTION_ROUNDED_WEIGHTS_INL_H_
#undef TVQ_KERNELS_CPU_VQ_ATTENTION_ROUNDED_WEIGHTS_INL_H_
#else
#define TVQ_KERNELS_CPU_VQ_ATTENTION_ROUNDED_WEIGHTS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/cpu/exponentials-inl.h"
#include "kernels/cpu/vq_attention/weights-inl.h"
#include "kernels/numbers/bfloat16.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Makes weights relative to the largest one, and sums them lane by lane.
struct RoundedSum {
  hn::Vec<WeightTag> maximum;
  hn::Vec<WeightTag> sum;
  hn::Mask<WeightTag> bad;  // lanes with a NaN

  // weight[k] = exp(score[k] - maximum) to the nearest bfloat16, 0 in the padding; `counts` may be
  // null: then every count is 1.
  HWY_INLINE void Add(int64_t count, const float* HWY_RESTRICT counts,
                      const float* HWY_RESTRICT score, BFloat16* HWY_RESTRICT weight) {
    const WeightTag d;
    const hn::RebindToUnsigned<WeightTag> du;
    const hn::Rebind<uint16_t, WeightTag> d16;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t k = 0; k < count; k += lanes) {
      const auto valid = hn::FirstN(d, static_cast<size_t>(std::min(count - k, lanes)));
      const auto below = hn::IfThenElseZero(valid, hn::Sub(hn::Load(d, score + k), maximum));
      bad = hn::Or(bad, hn::IsNaN(below));
      const auto bits = hn::BitCast(du, hn::IfThenElseZero(valid, hn::Exp(d, below)));
      const auto upper = hn::ShiftRight<16>(hn::Add(bits, hn::Set(du, 0x8000U)));
      hn::StoreU(hn::TruncateTo(d16, upper), d16, reinterpret_cast<uint16_t*>(weight + k));
      const auto rounded = hn::BitCast(d, hn::ShiftLeft<16>(upper));
      sum = counts == nullptr ? hn::Add(sum, rounded)
                              : hn::MulAdd(rounded, hn::Load(d, counts + k), sum);
    }
  }

  float Total() const {
    const WeightTag d;
    if (!hn::AllFalse(d, bad)) return std::numeric_limits<float>::quiet_NaN();
    return hn::GetLane(hn::SumOfLanes(d, sum));
  }
};

// Makes a query's weights, relative to the largest one and rounded to bfloat16: those of codes from
// 0 on, then `lead` zeros and those of positions. Returns the sum of the rounded weights, so that
// dividing by it undoes what rounding does to all weights alike. score [keys.Size()], aligned, is
// working memory; weight [keys.Size() + kKeyPad].
HWY_INLINE float RoundedWeights(const QueryScores& q, int64_t lead, float* HWY_RESTRICT score,
                                BFloat16* HWY_RESTRICT weight) {
  const WeightTag d;
  const int64_t recent = q.keys.RecentOffset();
  const auto maximum = ScorePositions(q, score + recent, ScoreCodes(q, score));
  RoundedSum sum{hn::MaxOfLanes(d, maximum), hn::Zero(d), hn::FirstN(d, 0)};
  sum.Add(q.keys.live, q.keys.count, score, weight);
  BFloat16* positions = std::fill_n(weight + recent, lead, BFloat16());
  sum.Add(q.recent, nullptr, score + recent, positions);
  std::fill(positions + PadKeys(q.recent), weight + q.keys.Size() + kKeyPad, BFloat16());
  return sum.Total();
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
