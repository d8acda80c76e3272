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

// What a query's scores are made of, in the order of `keys`.
struct QueryScores {
  const AttentionKeys& keys;
  int64_t recent;  // positions of the keys that it attends to, of which the last is its own
  int64_t window;
  const float* code_scores;      // [S]
  const float* position_scores;  // [W] by distance
};

// Writes the scores of codes to `score`, and returns the largest one, lane by lane.
HWY_INLINE hn::Vec<WeightTag> ScoreCodes(const QueryScores& q, float* HWY_RESTRICT score) {
  const WeightTag d;
  const hn::Rebind<int32_t, WeightTag> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t live = q.keys.live;
  const bool all = live == 0 || q.keys.row[live - 1] == live - 1;  // no code below is missing
  auto maximum = hn::Set(d, std::numeric_limits<float>::lowest());
  for (int64_t k = 0; k < live; k += lanes) {
    const auto valid = hn::FirstN(d, static_cast<size_t>(std::min(live - k, lanes)));
    const auto of_code = all ? LoadFirst(d, q.code_scores + k, static_cast<size_t>(live - k))
                             : hn::GatherIndex(d, q.code_scores, hn::Load(di, q.keys.row + k));
    hn::Store(of_code, d, score + k);
    maximum = hn::Max(maximum, hn::IfThenElse(valid, of_code, maximum));
  }
  return maximum;
}

// Position scores of the positions from k on, zero for those out of reach.
HWY_INLINE hn::Vec<WeightTag> PositionScores(const QueryScores& q, int64_t k) {
  const WeightTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t farthest = q.recent - 1 - k, nearest = farthest - (lanes - 1);
  if (nearest >= q.window) return hn::Zero(d);
  if (nearest >= 0 && farthest < q.window) {
    return hn::Reverse(d, hn::LoadU(d, q.position_scores + nearest));
  }
  HWY_ALIGN float scores[kWeightPad] = {};
  for (int64_t l = std::max<int64_t>(0, farthest - q.window + 1); l < std::min(lanes, farthest + 1);
       ++l) {
    scores[l] = q.position_scores[farthest - l];
  }
  return hn::Load(d, scores);
}

// Like ScoreCodes, for the positions.
HWY_INLINE hn::Vec<WeightTag> ScorePositions(const QueryScores& q, float* HWY_RESTRICT score,
                                             hn::Vec<WeightTag> maximum) {
  const WeightTag d;
  const hn::Rebind<int32_t, WeightTag> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t k = 0; k < q.recent; k += lanes) {
    const auto of_code = hn::GatherIndex(d, q.code_scores, hn::Load(di, q.keys.recent_code + k));
    const auto sum = hn::Add(of_code, PositionScores(q, k));
    hn::Store(sum, d, score + k);
    const auto valid = hn::FirstN(d, static_cast<size_t>(std::min(q.recent - k, lanes)));
    maximum = hn::Max(maximum, hn::IfThenElse(valid, sum, maximum));
  }
  return maximum;
}

// Softmax weights of a query, divided by their sum, in the layout of its keys. weight
// [keys.Size()], aligned.
HWY_INLINE void SoftmaxWeights(const QueryScores& q, float* HWY_RESTRICT weight) {
  const WeightTag d;
  const int64_t live = q.keys.live;
  float* const recent_weight = weight + q.keys.RecentOffset();
  std::fill(weight + live, recent_weight, 0.0F);
  std::fill(recent_weight + q.recent, weight + q.keys.Size(), 0.0F);
  const auto maximum = hn::MaxOfLanes(d, ScorePositions(q, recent_weight, ScoreCodes(q, weight)));
  auto sum = Exponentials(maximum, live, q.keys.count, weight, hn::Zero(d));
  sum = Exponentials(maximum, q.recent, nullptr, recent_weight, sum);
  const auto inverse = hn::Div(hn::Set(d, 1.0F), hn::SumOfLanes(d, sum));
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t k = 0; k < q.keys.Size(); k += lanes) {
    hn::Store(hn::Mul(hn::Load(d, weight + k), inverse), d, weight + k);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
