// LinearPrefillAttention goes block after block, each in three phases. Keys: the features of the
// block's keys are laid out, as they are and transposed. Weights: a task for each head and group of
// queries lays out the queries' features, and computes their products with the features of the
// block's keys up to their own, and the denominators. Values: a task for each key/value head and
// tile of columns computes (query features x A as it stood before the block) + (products x the
// block's values), each a tiled product. Then it adds the block's positions to A, one after the
// other, with the tile in registers.
//
// Operations per block of B positions: 2 B (F + B) V for each query head, and 11 B F V for the
// additions of each key/value head, which are the larger part. Bytes: A is read and written once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear_attention/prefill.cc"
#include <algorithm>

#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/linear_attention/features-inl.h"
#include "kernels/cpu/packed_product-inl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/ops/attention/linear_attention.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

static_assert(kLinearPrefillBlock % kTileColumns == 0);

// Positions that are added to a part of A, in order: position t has features at key + t *
// key_stride, of which those of the part's rows are used, and values at value + t * value_stride.
struct BlockPositions {
  const float* key;
  int64_t key_stride;
  const float* value;
  int64_t value_stride;
  int64_t count;
};

// A[kRows][kVectors vectors] += features x values, position after position; rows `stride` apart.
// Sums and carries stay in registers: in 16 of AVX-512's 32, or in 4 where there are 16.
template <int kRows, int kVectors, class D>
HWY_INLINE void AppendTile(D d, const BlockPositions& p, int64_t row, int64_t column, float* sum,
                           float* carry, int64_t stride) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<D> s[kRows][kVectors];
  hn::Vec<D> e[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      s[r][j] = hn::LoadU(d, sum + r * stride + j * lanes);
      e[r][j] = hn::LoadU(d, carry + r * stride + j * lanes);
    }
  }
  for (int64_t t = 0; t < p.count; ++t) {
    const float* key = p.key + t * p.key_stride + row;
    const float* value = p.value + t * p.value_stride + column;
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      const auto v = hn::LoadU(d, value + j * lanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        TwoSum(d, hn::Mul(hn::Set(d, key[r]), v), s[r][j], e[r][j]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      hn::StoreU(s[r][j], d, sum + r * stride + j * lanes);
      hn::StoreU(e[r][j], d, carry + r * stride + j * lanes);
    }
  }
}

// The same for all of `columns`, in kRows rows from `row` on.
template <int kRows>
void AppendRows(const BlockPositions& p, int64_t row, int64_t columns, float* sum, float* carry,
                int64_t stride) {
  const TileTag d;
  int64_t c = 0;
  for (; c + kTileColumns <= columns; c += kTileColumns) {
    AppendTile<kRows, static_cast<int>(kTileVectors)>(d, p, row, c, sum + c, carry + c, stride);
  }
  for (; c + kTileLanes <= columns; c += kTileLanes) {
    AppendTile<kRows, 1>(d, p, row, c, sum + c, carry + c, stride);
  }
  for (; c < columns; ++c) {
    AppendTile<kRows, 1>(hn::CappedTag<float, 1>(), p, row, c, sum + c, carry + c, stride);
  }
}

// One block of positions, which are rows [row, row + block) of the call.
class LinearPrefillBlock {
 public:
  LinearPrefillBlock(CpuDevice& cpu, const LinearPrefillAttentionArgs& args, int64_t row,
                     int64_t block)
      : args_(args),
        shape_(args.shape),
        heads_(args.q.dim(1)),
        shared_(heads_ / shape_.kv_heads),
        row_(row),
        block_(block),
        padded_(PadFeatures(shape_.features)),
        weight_stride_(padded_ + kLinearPrefillBlock),
        keys_(cpu.Scratch<float>(0, shape_.kv_heads * kLinearPrefillBlock * padded_)),
        transposed_(cpu.Scratch<float>(1, shape_.kv_heads * kLinearPrefillBlock * padded_)),
        weights_(cpu.Scratch<float>(2, heads_ * block * weight_stride_)),
        denominators_(cpu.Scratch<float>(3, heads_ * block)),
        since_(cpu.Scratch<float>(4, shape_.kv_heads * padded_)) {
    RunTasks(cpu, shape_.kv_heads, shape_.kv_heads * block * padded_ * 16,
             [&](int64_t g) { ComputeKeys(g); });
    const int64_t groups = (block + kTileRows - 1) / kTileRows;
    RunTasks(cpu, heads_ * groups, heads_ * block * padded_ * kLinearPrefillBlock,
             [&](int64_t task) { ComputeWeights(task / groups, task % groups * kTileRows); });
    const int64_t tiles = (shape_.value + kPackColumns - 1) / kPackColumns;
    RunTasks(cpu, shape_.kv_heads * tiles, heads_ * block * weight_stride_ * shape_.value,
             [&](int64_t task) { SumValues(task / tiles, task % tiles * kPackColumns); });
  }

 private:
  // [block, padded], and [padded, kLinearPrefillBlock] with zeros beyond the block.
  float* Keys(int64_t g) const { return keys_ + g * kLinearPrefillBlock * padded_; }
  float* Transposed(int64_t g) const { return transposed_ + g * kLinearPrefillBlock * padded_; }
  // A query's features, then its products with the block's keys.
  float* Weights(int64_t h, int64_t query) const {
    return weights_ + (h * block_ + query) * weight_stride_;
  }

  void ComputeKeys(int64_t g) const {
    float* transposed = Transposed(g);
    std::fill_n(transposed, kLinearPrefillBlock * padded_, 0.0F);
    for (int64_t t = 0; t < block_; ++t) {
      float* key = Keys(g) + t * padded_;
      CopyFeatures(args_.k.row(row_ + t) + g * shape_.features, shape_.features, key);
      for (int64_t i = 0; i < shape_.features; ++i)
        transposed[i * kLinearPrefillBlock + t] = key[i];
    }
    if (args_.query_exponents) FindSince(g);
  }

  void FindSince(int64_t g) const {
    float* since = since_ + g * padded_;
    std::fill_n(since, padded_, static_cast<float>(block_));
    for (int64_t i = 0; i < shape_.features; ++i) {
      const float* keys = Transposed(g) + i * kLinearPrefillBlock;
      // Sums of subnormal numbers are exact, so this is decode's b until the feature is reached.
      float b = args_.state.key_sum[g * shape_.features + i] + keys[0];
      int64_t t = 0;
      while (b < kLeastReached && ++t < block_) b += keys[t];
      since[i] = static_cast<float>(t);
    }
  }

  // Exponentiates those features of a query of key/value head g that keys have reached.
  void ExponentiateSeen(int64_t g, int64_t query, float* features) const {
    const FeatureTag d;
    const auto at = hn::Set(d, static_cast<float>(query));
    const float* since = since_ + g * padded_;
    ExponentiateReached(
        shape_.features, [&](int64_t i) HWY_ATTR { return hn::Le(hn::Load(d, since + i), at); },
        features);
  }

  // Computes the weights of up to kTileRows queries from `first` on.
  void ComputeWeights(int64_t h, int64_t first) const {
    const int64_t g = h / shared_;
    const int64_t rows = std::min(kTileRows, block_ - first);
    TileArgs tile;
    tile.b_step = kLinearPrefillBlock;
    tile.b_vector = kTileLanes;
    tile.depth = shape_.features;
    tile.accumulate = false;
    for (int64_t i = 0; i < rows; ++i) {
      CopyFeatures(args_.q.row(row_ + first + i) + h * shape_.features, shape_.features,
                   Weights(h, first + i));
      if (args_.query_exponents) ExponentiateSeen(g, first + i, Weights(h, first + i));
      tile.a[i] = Weights(h, first + i);
    }
    for (int64_t c = 0; c < kLinearPrefillBlock; c += kTileColumns) {
      tile.b = Transposed(g) + c;
      for (int64_t i = 0; i < rows; ++i) tile.c[i] = Weights(h, first + i) + padded_ + c;
      ComputeTile(rows, kTileVectors, tile);
    }
    for (int64_t i = 0; i < rows; ++i) {
      float* products = Weights(h, first + i) + padded_;
      std::fill(products + first + i + 1, products + kLinearPrefillBlock, 0.0F);
      denominators_[h * block_ + first + i] =
          DotFeatures(Weights(h, first + i), args_.state.key_sum + g * shape_.features,
                      shape_.features) +
          SumProducts(products);
    }
  }

  static float SumProducts(const float* products) {
    const FeatureTag d;
    auto sum = hn::Zero(d);
    for (int64_t i = 0; i < kLinearPrefillBlock; i += static_cast<int64_t>(hn::Lanes(d))) {
      sum = hn::Add(sum, hn::Load(d, products + i));
    }
    return hn::GetLane(hn::SumOfLanes(d, sum));
  }

  void SumValues(int64_t g, int64_t first) const {
    const int64_t values = shape_.value;
    const int64_t columns = std::min(kPackColumns, values - first);
    const QueryRows queries{Weights(g * shared_, 0),
                            weight_stride_,
                            shared_ * block_,
                            block_,
                            args_.out.row(row_) + g * shared_ * values + first,
                            heads_ * values,
                            values};
    const int64_t start = g * shape_.features * values + first;
    float* sum = args_.state.key_value_sum + start;
    float* carry = args_.state.key_value_carry + start;
    const float* v = args_.v.row(row_) + g * values + first;
    const int64_t v_stride = shape_.kv_heads * values;
    MultiplyRun<float, float>(queries, 0, {sum, values, nullptr, shape_.features}, columns, false);
    MultiplyRun<float, float>(queries, padded_, {v, v_stride, nullptr, block_}, columns, true);
    for (int64_t r = 0; r < queries.count; ++r) {
      DivideRow(denominators_[g * shared_ * block_ + r], columns, queries.Out(r));
    }

    const BlockPositions positions{Keys(g), padded_, v, v_stride, block_};
    constexpr int64_t kRows = kTileLanes == 16 ? 2 : 1;
    int64_t row = 0;
    for (; row + kRows <= shape_.features; row += kRows) {
      AppendRows<kRows>(positions, row, columns, sum + row * values, carry + row * values, values);
    }
    for (; row < shape_.features; ++row) {
      AppendRows<1>(positions, row, columns, sum + row * values, carry + row * values, values);
    }
    if (first > 0) return;
    for (int64_t t = 0; t < block_; ++t) {
      AppendKey(Keys(g) + t * padded_, shape_.features, args_.state.key_sum + g * shape_.features,
                args_.state.key_carry + g * shape_.features);
    }
  }

  const LinearPrefillAttentionArgs& args_;
  const LinearShape& shape_;
  const int64_t heads_;
  const int64_t shared_;  // heads per key/value head
  const int64_t row_;     // of the call
  const int64_t block_;
  const int64_t padded_;
  const int64_t weight_stride_;
  float* const keys_;
  float* const transposed_;
  float* const weights_;
  float* const denominators_;  // [H, block]
  // [G, padded]: the first position of the block at which keys have reached the feature; `block_`
  // if none has. Only with query_exponents.
  float* const since_;
};

void LinearPrefillAll(CpuDevice& cpu, const LinearPrefillAttentionArgs& args) {
  const int64_t tokens = args.q.dim(0);
  for (int64_t row = 0; row < tokens;) {
    const int64_t place = (args.position + row) % kLinearPrefillBlock;
    const int64_t block = std::min(kLinearPrefillBlock - place, tokens - row);
    LinearPrefillBlock(cpu, args, row, block);
    row += block;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {

HWY_EXPORT(LinearPrefillAll);

absl::Status CpuLinearPrefillAttention(Device& device, const LinearPrefillAttentionArgs& args) {
  HWY_DYNAMIC_DISPATCH(LinearPrefillAll)(AsCpu(device), args);
  return absl::OkStatus();
}

}  // namespace tvq
#endif
