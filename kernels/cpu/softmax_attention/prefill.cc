// SoftmaxPrefillAttention first writes the call's keys and values to their pages. Then a task for
// each key/value head and block of queries passes over all keys up to the block's last, one tile of
// 128 after the other. For each tile it computes scores and the softmax so far (Milakov, Gimelshein
// 2018, algorithm 3), and adds the tile's values in tiles of columns, packed once for all queries
// of the block (Dao et al. 2022). Tiles start at absolute positions and a row's sums run in order,
// so that the bits do not depend on how positions are cut into blocks and calls.
//
// Operations per query and head: 2 (K + V) for each position up to its own; bytes per block of
// queries and key/value head: every key and value once. The largest intermediate is the weights of
// the blocks, [H, T, 128].
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/softmax_attention/prefill.cc"
#include <algorithm>
#include <limits>

#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/exponentials-inl.h"
#include "kernels/cpu/packed_product-inl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/softmax_attention/pages.h"
#include "kernels/cpu/softmax_attention/scores-inl.h"
#include "kernels/ops/attention/softmax_attention.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

// Keys of a tile: as many rows as are packed at a time.
inline constexpr int64_t kKeyTile = kPackRows;
static_assert(kKeyValuePage % kKeyTile == 0 && kKeyTile % kTileColumns == 0);

// The most queries of a block: keys and values are widened and packed once for all of them.
inline constexpr int64_t kMostQueries = 64;
inline constexpr int64_t kFewestQueries = 12;

// Queries of a block: fewer where there would be fewer tasks than threads. The number changes no
// bits.
int64_t BlockQueries(int64_t kv_heads, int64_t tokens, int threads) {
  int64_t queries = kMostQueries;
  while (queries / 2 >= kFewestQueries && kv_heads * ((tokens + queries - 1) / queries) < threads) {
    queries /= 2;
  }
  return queries;
}

// x *= factor, [count].
HWY_INLINE void ScaleRow(float factor, int64_t count, float* x) {
  const TileTag d;
  const auto by = hn::Set(d, factor);
  for (int64_t i = 0; i < count; i += kTileLanes) {
    const auto rest = static_cast<size_t>(count - i);
    StoreFirst(hn::Mul(LoadFirst(d, x + i, rest), by), d, x + i, rest);
  }
}

// A block of queries of the heads that share key/value head g: rows [first, first + count) of the
// call. Row r of the block is query r % count of head r / count.
template <typename T>
class QueryBlock {
 public:
  // Floats of memory that a block of so many rows takes, rounded up so that the next block is
  // aligned, too.
  static int64_t Floats(int64_t rows) {
    return (rows * (kKeyTile + 2) + kWeightPad - 1) / kWeightPad * kWeightPad;
  }

  QueryBlock(const SoftmaxPrefillAttentionArgs& args, int64_t g, int64_t first, int64_t count,
             float* memory)
      : args_(args),
        shape_(args.shape),
        layer_{args.shape, args.layer_offset, args.pages},
        heads_(args.q.dim(1)),
        shared_(heads_ / shape_.kv_heads),
        g_(g),
        first_(first),
        count_(count),
        weights_(memory),
        maxima_(memory + shared_ * count * kKeyTile),
        sums_(maxima_ + shared_ * count) {
    std::fill_n(maxima_, shared_ * count, std::numeric_limits<float>::lowest());
    std::fill_n(sums_, shared_ * count, 0.0F);
  }

  void Attend() {
    const int64_t end = args_.position + first_ + count_;
    for (int64_t key = 0; key < end; key += kKeyTile) {
      const int64_t keys = std::min(kKeyTile, end - key);
      for (int64_t i = 0; i < shared_; ++i) {
        for (int64_t q = 0; q < count_; q += kTileRows) ComputeWeights(key, keys, i, q);
      }
      SumValues(key, keys);
    }
    for (int64_t r = 0; r < shared_ * count_; ++r) DivideRow(sums_[r], shape_.value, Out(r));
  }

 private:
  float* Out(int64_t r) const {
    return args_.out.row(first_ + r % count_) + (g_ * shared_ + r / count_) * shape_.value;
  }

  // Weights of keys [key, key + keys) for up to kTileRows queries of one head.
  void ComputeWeights(int64_t key, int64_t keys, int64_t head, int64_t query) {
    const int64_t rows = std::min(kTileRows, count_ - query);
    const int64_t h = g_ * shared_ + head;
    const int64_t row = head * count_ + query;
    TileArgsOf<T> tile{};
    for (int64_t r = 0; r < rows; ++r) {
      tile.a[r] = args_.q.row(first_ + query + r) + h * shape_.key;
      tile.c[r] = weights_ + (row + r) * kKeyTile;
    }
    const T* panels =
        layer_.Keys(key / kKeyValuePage, g_) + shape_.KeyIndex(0, key % kKeyValuePage, 0);
    ScoreKeys(panels, shape_.key, keys, rows, tile);
    for (int64_t r = 0; r < rows; ++r) Soften(key, query + r, h, row + r);
  }

  // Turns the scores of one query into weights relative to the maximum so far, and scales the
  // query's earlier sums to that maximum.
  void Soften(int64_t key, int64_t query, int64_t h, int64_t row) {
    const WeightTag d;
    const int64_t distance = args_.position + first_ + query - key;
    const int64_t count = std::clamp<int64_t>(distance + 1, 0, kKeyTile);
    const int64_t window = args_.position_scores.dim(2);
    float* weight = weights_ + row * kKeyTile;
    if (window > 0 && count > 0) {
      AddPositionScores(args_.position_scores.row(first_ + query) + h * window, window, distance,
                        count, weight);
    }
    const auto before = hn::Set(d, maxima_[row]);
    const auto maximum = LargestWeight(weight, count, before);
    const float factor = hn::GetLane(FastExp(d, hn::Sub(before, maximum)));
    const auto sum = Exponentials(maximum, count, nullptr, weight, hn::Zero(d));
    std::fill(weight + count, weight + kKeyTile, 0.0F);
    maxima_[row] = hn::GetLane(maximum);
    sums_[row] = sums_[row] * factor + hn::GetLane(hn::SumOfLanes(d, sum));
    if (key > 0 && factor != 1) ScaleRow(factor, shape_.value, Out(row));
  }

  void SumValues(int64_t key, int64_t keys) const {
    const T* values = layer_.Values(key / kKeyValuePage, g_) + key % kKeyValuePage * shape_.value;
    for (int64_t first = 0; first < shape_.value; first += kPackColumns) {
      const QueryRows queries{weights_,    kKeyTile,       shared_ * count_,
                              count_,      Out(0) + first, heads_ * shape_.value,
                              shape_.value};
      MultiplyRun<T, T>(queries, 0, {values + first, shape_.value, nullptr, keys},
                        std::min(kPackColumns, shape_.value - first), key > 0);
    }
  }

  const SoftmaxPrefillAttentionArgs& args_;
  const KeyValueShape& shape_;
  const LayerPages<T> layer_;
  const int64_t heads_;
  const int64_t shared_;  // heads per key/value head
  const int64_t g_;
  const int64_t first_;
  const int64_t count_;
  float* const weights_;  // [rows, kKeyTile]
  float* const maxima_;   // [rows]
  float* const sums_;     // [rows]
};

template <typename T>
void PrefillAll(CpuDevice& cpu, const SoftmaxPrefillAttentionArgs& args) {
  const KeyValueShape& shape = args.shape;
  const int64_t tokens = args.q.dim(0);
  const int64_t heads = args.q.dim(1);
  if (tokens == 0) return;
  const LayerPages<T> layer{shape, args.layer_offset, args.pages};
  const int64_t row_bytes = (shape.key + shape.value) * static_cast<int64_t>(sizeof(T));
  RunTasks(cpu, shape.kv_heads, tokens * shape.kv_heads * row_bytes, [&](int64_t g) {
    for (int64_t t = 0; t < tokens; ++t) {
      AppendKeyValue(layer, g, args.position + t, args.k.row(t) + g * shape.key,
                     args.v.row(t) + g * shape.value);
    }
  });
  const int64_t queries = BlockQueries(shape.kv_heads, tokens, cpu.pool().threads());
  const int64_t blocks = (tokens + queries - 1) / queries;
  const int64_t floats = QueryBlock<T>::Floats(heads / shape.kv_heads * queries);
  float* memory = cpu.Scratch<float>(0, shape.kv_heads * blocks * floats);
  RunTasks(cpu, shape.kv_heads * blocks,
           tokens * heads * (args.position + tokens) * (shape.key + shape.value),
           [&](int64_t task) {
             const int64_t first = task % blocks * queries;
             QueryBlock<T>(args, task / blocks, first, std::min(queries, tokens - first),
                           memory + task * floats)
                 .Attend();
           });
}

void SoftmaxPrefillAll(CpuDevice& cpu, const SoftmaxPrefillAttentionArgs& args) {
  if (args.shape.dtype == DType::kFloat32) {
    PrefillAll<float>(cpu, args);
  } else {
    PrefillAll<BFloat16>(cpu, args);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {

HWY_EXPORT(SoftmaxPrefillAll);

absl::Status CpuSoftmaxPrefillAttention(Device& device, const SoftmaxPrefillAttentionArgs& args) {
  HWY_DYNAMIC_DISPATCH(SoftmaxPrefillAll)(AsCpu(device), args);
  return absl::OkStatus();
}

}  // namespace tvq
#endif
