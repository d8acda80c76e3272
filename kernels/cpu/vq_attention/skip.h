// Which rows of values a query can do without, once their weights are known
// (kernels/ops/vq_attention.h).
#ifndef TVQ_KERNELS_CPU_VQ_ATTENTION_SKIP_H_
#define TVQ_KERNELS_CPU_VQ_ATTENTION_SKIP_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "kernels/cpu/vq_attention/keys.h"

namespace tvq {

// Weights of the heads that share a key/value head, [heads, stride], each in the layout of the
// keys.
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

// Makes weights of positions weights of whole codes.
inline void WeighMeans(const AttentionKeys& keys, const SharedWeights& weights) {
  for (int64_t h = 0; h < weights.heads; ++h) {
    float* weight = weights.Head(h);
    for (int64_t k = 0; k < keys.live; ++k) weight[k] *= keys.count[k];
  }
}

// Shares of the softmax, by size: eight buckets for each power of two up to 1, all that is below
// 2^-32 in the first one. What is not a number counts as large: it is read, and shows.
class ShareBuckets {
 public:
  void Add(float share) {
    const int32_t bucket = Bucket(share);
    sum_[static_cast<size_t>(bucket)] += share;
    highest_ = std::max(highest_, bucket);
  }

  // Shares below this are left out: those of whole buckets, at most `skip_mass` together, and never
  // the largest.
  float Threshold(float skip_mass) const {
    int32_t bucket = 0;
    float total = 0;
    for (; bucket < highest_; ++bucket) {
      total += sum_[static_cast<size_t>(bucket)];
      if (!(total <= skip_mass)) break;
    }
    return bucket == 0 ? 0 : std::bit_cast<float>((bucket + kLowest) << kShift);
  }

 private:
  static constexpr int32_t kBuckets = 256;
  static constexpr int kShift = 20;  // leaves sign, exponent and three bits of a float32
  static constexpr int32_t kLowest = (std::bit_cast<int32_t>(1.0F) >> kShift) - kBuckets + 1;

  static int32_t Bucket(float share) {
    const auto bits = static_cast<int32_t>(std::bit_cast<uint32_t>(share) >> kShift);
    return std::clamp(bits - kLowest, 0, kBuckets - 1);
  }

  std::array<float, kBuckets> sum_{};
  int32_t highest_ = 0;
};

struct SkipArgs {
  const AttentionKeys& keys;
  bool of_means;  // see WeighMeans
  SharedWeights weights;
  float skip_mass;
  uint8_t* kept;  // working memory, keys.Size()

  // Calls visit(k, share of key k in the softmax).
  template <typename Visit>
  void ForEachShare(const float* weight, const Visit& visit) const {
    const int64_t offset = keys.RecentOffset();
    for (int64_t k = 0; k < keys.live; ++k) {
      visit(k, of_means ? weight[k] : weight[k] * keys.count[k]);
    }
    for (int64_t k = offset; k < offset + keys.recent; ++k) visit(k, weight[k]);
  }
};

// Moves what is kept of a run to its front; returns how much.
template <typename T, typename Change>
int64_t Compact(const uint8_t* kept, int64_t count, T* run, const Change& change) {
  int64_t to = 0;
  for (int64_t k = 0; k < count; ++k) {
    run[to] = change(run[k]);
    to += kept[k];
  }
  return to;
}

// Leaves out of both runs, which have all rows, what no head needs, and raises the weights of the
// others to sum to one. skipped_mass [heads], or null.
inline void SkipRows(const SkipArgs& args, ReadRun& codes, ReadRun& recent, float* skipped_mass) {
  std::fill_n(args.kept, args.keys.Size(), uint8_t{0});
  for (int64_t h = 0; h < args.weights.heads; ++h) {
    ShareBuckets buckets;
    args.ForEachShare(args.weights.Head(h), [&](int64_t, float share) { buckets.Add(share); });
    const float threshold = buckets.Threshold(args.skip_mass);
    args.ForEachShare(args.weights.Head(h),
                      [&](int64_t k, float share) { args.kept[k] |= share < threshold ? 0 : 1; });
  }
  for (int64_t h = 0; h < args.weights.heads; ++h) {
    float* weight = args.weights.Head(h);
    double mass[2] = {};  // of what is left out, of what is kept
    args.ForEachShare(weight, [&](int64_t k, float share) { mass[args.kept[k]] += share; });
    const auto raise = static_cast<float>(1 / mass[1]);
    for (const ReadRun& run : {codes, recent}) {
      Compact(args.kept + run.offset, run.count, weight + run.offset,
              [&](float w) { return w * raise; });
    }
    if (skipped_mass != nullptr) skipped_mass[h] = static_cast<float>(mass[0]);
  }
  for (ReadRun* run : {&codes, &recent}) {
    run->count =
        Compact(args.kept + run->offset, run->count, run->row, [](int32_t row) { return row; });
  }
}

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_VQ_ATTENTION_SKIP_H_
