// Attention's first phase: which rows of values a query reads, and with what weights.
//
// Keys of one key/value head lie in two runs, each padded to kKeyPad: the codes with n > 0, in
// order, then the positions that are attended one by one, oldest first.
#if defined(TVQ_KERNELS_CPU_VQ_ATTENTION_WEIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TVQ_KERNELS_CPU_VQ_ATTENTION_WEIGHTS_INL_H_
#undef TVQ_KERNELS_CPU_VQ_ATTENTION_WEIGHTS_INL_H_
#else
#define TVQ_KERNELS_CPU_VQ_ATTENTION_WEIGHTS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "kernels/cpu/exponentials-inl.h"
#include "kernels/cpu/vq_attention/keys.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

static_assert(kKeyPad == kWeightPad);

// weight[k] += code_scores[code[k]] for k in [0, count) and whatever lies in the padding; returns
// the largest, lane by lane.
HWY_INLINE hn::Vec<WeightTag> AddCodeScores(const float* HWY_RESTRICT code_scores,
                                            const int32_t* HWY_RESTRICT code, int64_t count,
                                            float* HWY_RESTRICT weight,
                                            hn::Vec<WeightTag> maximum) {
  const WeightTag d;
  const hn::Rebind<int32_t, WeightTag> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto lowest = hn::Set(d, std::numeric_limits<float>::lowest());
  for (int64_t k = 0; k < count; k += lanes) {
    const auto gathered = hn::GatherIndex(d, code_scores, hn::Load(di, code + k));
    const auto score = hn::Add(gathered, hn::Load(d, weight + k));
    hn::Store(score, d, weight + k);
    const auto valid = hn::FirstN(d, static_cast<size_t>(std::min(count - k, lanes)));
    maximum = hn::Max(maximum, hn::IfThenElse(valid, score, lowest));
  }
  return maximum;
}

// Softmax weights of one query, divided by their sum, in the layout of `keys`. The query attends to
// the first `recent` positions of the keys, of which the last is its own.
// code_scores [S], position_scores [W]; weight [keys.Size()], aligned.
HWY_INLINE void SoftmaxWeights(const AttentionKeys& keys, int64_t recent, int64_t window,
                               const float* HWY_RESTRICT code_scores,
                               const float* HWY_RESTRICT position_scores,
                               float* HWY_RESTRICT weight) {
  const WeightTag d;
  float* recent_weight = weight + keys.RecentOffset();
  std::fill_n(weight, keys.Size(), 0.0F);
  // Distances fall by one from key to key; those of `window` and more have no position score.
  const int64_t near = std::max<int64_t>(0, recent - window);
  for (int64_t k = near; k < recent; ++k) recent_weight[k] = position_scores[recent - 1 - k];

  auto maximum = hn::Set(d, std::numeric_limits<float>::lowest());
  maximum = AddCodeScores(code_scores, keys.row, keys.live, weight, maximum);
  maximum = AddCodeScores(code_scores, keys.recent_code, recent, recent_weight, maximum);
  maximum = hn::MaxOfLanes(d, maximum);

  auto sum = hn::Zero(d);
  sum = Exponentials(maximum, keys.live, keys.count, weight, sum);
  sum = Exponentials(maximum, recent, nullptr, recent_weight, sum);
  const auto inverse = hn::Div(hn::Set(d, 1.0F), hn::SumOfLanes(d, sum));
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t k = 0; k < keys.Size(); k += lanes) {
    hn::Store(hn::Mul(hn::Load(d, weight + k), inverse), d, weight + k);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
