// VqCollect has a task for each key/value head and tile of columns; columns do not depend on one
// another. VqEncoderAttention has two phases. Weights: a task for each query and head. Values: a
// task for each key/value head, tile of columns and group of queries, each a tiled product weights
// x U.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vq_encoder/vq_encoder.cc"
#include "kernels/ops/attention/vq_encoder.h"

#include <algorithm>
#include <limits>

#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/exponentials-inl.h"
#include "kernels/cpu/packed_product-inl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/stored_values-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

// Columns of a task: enough for a long stretch of memory.
inline constexpr int64_t kCollectColumns = 256;

void AddRow(const float* v, int64_t count, float* sum, float* carry) {
  const WeightTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + lanes <= count; c += lanes) AddTwoSum(d, hn::LoadU(d, v + c), sum + c, carry + c);
  const hn::CappedTag<float, 1> d1;
  for (; c < count; ++c) AddTwoSum(d1, hn::LoadU(d1, v + c), sum + c, carry + c);
}

void VqCollectAll(CpuDevice& cpu, const VqCollectArgs& args) {
  const auto& [heads, codes, values] = args.shape;
  const int64_t tokens = args.codes.dim(0);
  for (int64_t i = 0; i < tokens * heads; ++i) {
    ++args.sums.count[i % heads * codes + args.codes.data[i]];
  }
  const int64_t tiles = (values + kCollectColumns - 1) / kCollectColumns;
  RunTasks(cpu, heads * tiles, tokens * heads * values * 4, [&](int64_t task) {
    const int64_t g = task / tiles;
    const int64_t first = task % tiles * kCollectColumns;
    const int64_t count = std::min(kCollectColumns, args.shape.value - first);
    for (int64_t t = 0; t < tokens; ++t) {
      const int64_t row = g * args.shape.codes + args.codes.row(t)[g];
      const int64_t at = row * args.shape.value + first;
      AddRow(args.v.row(t) + g * args.shape.value + first, count, args.sums.sum + at,
             args.sums.carry + at);
    }
  });
}

class EncoderAttention {
 public:
  EncoderAttention(CpuDevice& cpu, const VqEncoderAttentionArgs& args)
      : args_(args),
        shape_(args.shape),
        tokens_(args.code_scores.dim(0)),
        heads_(args.code_scores.dim(1)),
        shared_(heads_ / shape_.kv_heads),
        padded_((shape_.codes + kWeightPad - 1) / kWeightPad * kWeightPad),
        counts_(cpu.Scratch<float>(0, shape_.kv_heads * padded_)),
        weights_(cpu.Scratch<float>(1, tokens_ * heads_ * padded_)) {
    std::fill_n(counts_, shape_.kv_heads * padded_, 0.0F);
    for (int64_t i = 0; i < shape_.kv_heads * shape_.codes; ++i) {
      const auto count = static_cast<float>(args.sums.count[i]);
      counts_[i / shape_.codes * padded_ + i % shape_.codes] = count;
    }
    RunTasks(cpu, tokens_ * heads_, tokens_ * heads_ * padded_ * 16,
             [&](int64_t query) { ComputeWeights(query / heads_, query % heads_); });
    const int64_t tiles = (shape_.value + kPackColumns - 1) / kPackColumns;
    const int64_t blocks = (tokens_ + kBlock - 1) / kBlock;
    RunTasks(cpu, shape_.kv_heads * tiles * blocks, tokens_ * heads_ * padded_ * shape_.value,
             [&](int64_t task) {
               SumValues(task / (tiles * blocks), task / blocks % tiles * kPackColumns,
                         task % blocks * kBlock);
             });
  }

 private:
  // So many queries share the packing of U.
  static constexpr int64_t kBlock = 64;

  // By head, then query, so that a key/value head's queries lie together.
  float* Weights(int64_t head, int64_t token) const {
    return weights_ + (head * tokens_ + token) * padded_;
  }

  // Computes a query's weights, divided by their sum.
  void ComputeWeights(int64_t token, int64_t head) const {
    const WeightTag d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto lowest = hn::Set(d, std::numeric_limits<float>::lowest());
    const float* scores = args_.code_scores.row(token) + head * shape_.codes;
    const float* counts = counts_ + head / shared_ * padded_;
    float* weight = Weights(head, token);
    for (int64_t s = 0; s < padded_; s += lanes) {
      const auto count = static_cast<size_t>(std::max<int64_t>(shape_.codes - s, 0));
      const auto score = LoadFirst(d, scores + std::min(s, shape_.codes), count);
      const auto there = hn::Gt(hn::Load(d, counts + s), hn::Zero(d));
      hn::Store(hn::IfThenElse(there, score, lowest), d, weight + s);
    }
    const auto maximum = LargestWeight(weight, padded_, lowest);
    const auto sum = Exponentials(maximum, padded_, counts, weight, hn::Zero(d));
    const auto inverse = hn::Div(hn::Set(d, 1.0F), hn::SumOfLanes(d, sum));
    for (int64_t s = 0; s < padded_; s += lanes) {
      hn::Store(hn::Mul(hn::Load(d, weight + s), inverse), d, weight + s);
    }
  }

  void SumValues(int64_t g, int64_t column, int64_t first) const {
    const int64_t columns = std::min(kPackColumns, shape_.value - column);
    const float* sum = args_.sums.sum + g * shape_.codes * shape_.value + column;
    const int64_t block = std::min(kBlock, tokens_ - first);
    for (int64_t i = 0; i < shared_; ++i) {
      const int64_t head = g * shared_ + i;
      const QueryRows queries{Weights(head, first),
                              padded_,
                              block,
                              block,
                              args_.out.row(first) + head * shape_.value + column,
                              heads_ * shape_.value,
                              0};
      MultiplyRun<float, float>(queries, 0, {sum, shape_.value, nullptr, shape_.codes}, columns,
                                false);
    }
  }

  const VqEncoderAttentionArgs& args_;
  const CodeSumsShape& shape_;
  const int64_t tokens_;
  const int64_t heads_;
  const int64_t shared_;  // heads per key/value head
  const int64_t padded_;  // codes
  float* const counts_;   // [G, padded]
  float* const weights_;  // [H, T, padded]
};

void VqEncoderAttentionAll(CpuDevice& cpu, const VqEncoderAttentionArgs& args) {
  EncoderAttention(cpu, args);
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {

HWY_EXPORT(VqCollectAll);
HWY_EXPORT(VqEncoderAttentionAll);

absl::Status CpuVqCollect(Device& device, const VqCollectArgs& args) {
  HWY_DYNAMIC_DISPATCH(VqCollectAll)(AsCpu(device), args);
  return absl::OkStatus();
}

absl::Status CpuVqEncoderAttention(Device& device, const VqEncoderAttentionArgs& args) {
  HWY_DYNAMIC_DISPATCH(VqEncoderAttentionAll)(AsCpu(device), args);
  return absl::OkStatus();
}

}  // namespace tvq
#endif
