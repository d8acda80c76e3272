// Leaves rows out that no query needs (kernels/numbers/share_buckets.h).
#if defined(TVQ_KERNELS_CPU_VQ_ATTENTION_SKIP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TVQ_KERNELS_CPU_VQ_ATTENTION_SKIP_INL_H_
#undef TVQ_KERNELS_CPU_VQ_ATTENTION_SKIP_INL_H_
#else
#define TVQ_KERNELS_CPU_VQ_ATTENTION_SKIP_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/exponentials-inl.h"
#include "kernels/cpu/vq_attention/keys.h"
#include "kernels/numbers/share_buckets.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Weights of the heads that share a key/value head, [heads, stride], each in the layout of the
// keys, with 0 in the padding.
struct SharedWeights {
  float* weight;
  int64_t stride;
  int64_t heads;
  float* Head(int64_t h) const { return weight + h * stride; }
};

// Rows that are read: `row` [count], with the weights from `offset` on.
struct ReadRun {
  int32_t* row = nullptr;
  int64_t offset = 0;
  int64_t count = 0;
};

// Multiplies the weights of codes with their counts: they become weights of means instead of
// weights of sums.
HWY_INLINE void WeighMeans(const AttentionKeys& keys, const SharedWeights& weights) {
  const WeightTag d;
  for (int64_t h = 0; h < weights.heads; ++h) {
    float* weight = weights.Head(h);
    for (int64_t k = 0; k < keys.live; k += static_cast<int64_t>(hn::Lanes(d))) {
      hn::Store(hn::Mul(hn::Load(d, weight + k), hn::Load(d, keys.count + k)), d, weight + k);
    }
  }
}

struct SkipArgs {
  const AttentionKeys& keys;
  bool of_means;  // see WeighMeans
  SharedWeights weights;
  float skip_mass;
  float* threshold;  // [heads], working memory
  uint8_t* kept;     // [keys.Size() + 8], working memory: bits of each vector of keys

  // Shares in the softmax of the vector of keys from k on.
  hn::Vec<WeightTag> Shares(const float* weight, int64_t k) const {
    const WeightTag d;
    const auto share = hn::Load(d, weight + k);
    if (of_means || k >= keys.RecentOffset()) return share;
    return hn::Mul(share, hn::Load(d, keys.count + k));
  }

  // The sum of change(shares, k) over all vectors of keys.
  template <class Change>
  float SumShares(const float* weight, const Change& change) const {
    const WeightTag d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    auto even = hn::Zero(d), odd = hn::Zero(d);
    int64_t k = 0;
    for (; k + 2 * lanes <= keys.Size(); k += 2 * lanes) {
      even = hn::Add(even, change(Shares(weight, k), k));
      odd = hn::Add(odd, change(Shares(weight, k + lanes), k + lanes));
    }
    if (k < keys.Size()) even = hn::Add(even, change(Shares(weight, k), k));
    return hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  }
};

// Shares of one head below this are left out.
HWY_INLINE float SkipThreshold(const SkipArgs& args, const float* weight) {
  const WeightTag d;
  const hn::RebindToSigned<WeightTag> di;
  // Compared by their bits, so that NaN is the largest.
  auto largest = hn::Zero(di);
  for (int64_t k = 0; k < args.keys.Size(); k += static_cast<int64_t>(hn::Lanes(d))) {
    largest = hn::Max(largest, hn::BitCast(di, hn::Abs(args.Shares(weight, k))));
  }
  return ShareBuckets::Threshold(hn::GetLane(hn::BitCast(d, hn::MaxOfLanes(di, largest))),
                                 args.skip_mass, [&](float edge) {
                                   const auto limit = hn::Set(d, edge);
                                   return args.SumShares(weight, [&](auto share, int64_t) HWY_ATTR {
                                     return hn::IfThenElseZero(hn::Lt(share, limit), share);
                                   });
                                 });
}

// Moves the kept values of a run to its front; returns how many they are.
template <typename T>
HWY_INLINE int64_t CompactRun(const SkipArgs& args, const ReadRun& run, T* values) {
  const hn::Rebind<T, WeightTag> d;
  int64_t to = 0;
  for (int64_t k = 0; k < run.count; k += static_cast<int64_t>(hn::Lanes(d))) {
    const auto kept = hn::LoadMaskBits(d, args.kept + run.offset + k);
    to += static_cast<int64_t>(hn::CompressStore(hn::LoadU(d, values + k), kept, d, values + to));
  }
  return to;
}

// Removes the rows that no head needs from both runs, which have all rows, and raises the weights
// of the others so that they sum to one. skipped_mass [heads], or null.
HWY_INLINE void SkipRows(const SkipArgs& args, ReadRun& codes, ReadRun& recent,
                         float* skipped_mass) {
  const WeightTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const SharedWeights& weights = args.weights;
  for (int64_t h = 0; h < weights.heads; ++h) {
    args.threshold[h] = SkipThreshold(args, weights.Head(h));
  }
  for (const ReadRun& run : {codes, recent}) {
    for (int64_t k = 0; k < run.count; k += lanes) {
      auto below = hn::FirstN(d, static_cast<size_t>(lanes));
      for (int64_t h = 0; h < weights.heads; ++h) {
        const auto share = args.Shares(weights.Head(h), run.offset + k);
        below = hn::And(below, hn::Lt(share, hn::Set(d, args.threshold[h])));
      }
      const auto there = hn::FirstN(d, static_cast<size_t>(std::min(run.count - k, lanes)));
      hn::StoreMaskBits(d, hn::AndNot(below, there), args.kept + run.offset + k);
    }
  }
  for (int64_t h = 0; h < weights.heads; ++h) {
    float* weight = weights.Head(h);
    const auto kept_mass = args.SumShares(weight, [&](auto share, int64_t k) HWY_ATTR {
      return hn::IfThenElseZero(hn::LoadMaskBits(d, args.kept + k), share);
    });
    if (skipped_mass != nullptr) {
      skipped_mass[h] = args.SumShares(weight, [&](auto share, int64_t k) HWY_ATTR {
        return hn::IfThenZeroElse(hn::LoadMaskBits(d, args.kept + k), share);
      });
    }
    const auto raise = hn::Set(d, 1 / kept_mass);
    for (const ReadRun& run : {codes, recent}) {
      float* of_run = weight + run.offset;
      const int64_t count = CompactRun(args, run, of_run);
      for (int64_t k = 0; k < count; k += lanes) {
        hn::Store(hn::Mul(hn::Load(d, of_run + k), raise), d, of_run + k);
      }
    }
  }
  for (ReadRun* run : {&codes, &recent}) run->count = CompactRun(args, *run, run->row);
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
