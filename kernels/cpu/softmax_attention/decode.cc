// SoftmaxDecodeAttention has three phases. Append: new keys and values are written to their pages,
// so that rows of one session find each other's. Parts: a task for each session, key/value head and
// page computes for each query the maximum over the page, the sum of exponentials and the sum of
// values weighted by these. Merge: a task for each session and head adds the parts, scaled to the
// maximum of all pages, in the order of pages. Parts follow from positions alone, so that the bits
// depend on neither batch nor threads.
//
// Bytes per session, layer and key/value head: K + V elements for each position, each read once
// (queries beyond the sixth of a key/value head find them in the cache). This is what a step costs.
// Parts add V + 2 floats for each page.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/softmax_attention/decode.cc"
#include <algorithm>
#include <limits>

#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/exponentials-inl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/run_ahead.h"
#include "kernels/cpu/softmax_attention/pages.h"
#include "kernels/cpu/softmax_attention/scores-inl.h"
#include "kernels/ops/attention/softmax_attention.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

// A tile adds so many rows of values at a time, and prefetches the rows that follow meanwhile.
inline constexpr int64_t kValueRun = 64;
static_assert(kKeyValuePage % kValueRun == 0);

template <typename T>
class SoftmaxDecode {
 public:
  SoftmaxDecode(CpuDevice& cpu, const SoftmaxDecodeAttentionArgs& args)
      : args_(args),
        shape_(args.shape),
        sessions_(args.sessions.size()),
        heads_(args.q.dim(1)),
        shared_(heads_ / shape_.kv_heads),
        first_part_(cpu.Scratch<int64_t>(0, sessions_ + 1)) {
    first_part_[0] = 0;
    for (int64_t n = 0; n < sessions_; ++n) {
      first_part_[n + 1] = first_part_[n] + Pages(n) * shape_.kv_heads;
    }
    const int64_t parts = first_part_[sessions_];
    RunTasks(cpu, sessions_, sessions_ * shape_.LayerBytes() / kKeyValuePage,
             [&](int64_t n) { Append(n); });
    maxima_ = cpu.Scratch<float>(1, parts * shared_);
    sums_ = cpu.Scratch<float>(2, parts * shared_);
    values_ = cpu.Scratch<float>(3, parts * shared_ * shape_.value);
    RunAhead(cpu, parts, parts * shape_.LayerBytes() / shape_.kv_heads,
             [&](int64_t part, int64_t next) {
               ComputePart(PartAt(part), next < parts ? PartAt(next).keys : nullptr);
             });
    RunTasks(cpu, sessions_ * heads_, parts * shared_ * shape_.value * 4,
             [&](int64_t task) { Merge(task / heads_, task % heads_); });
  }

 private:
  int64_t Pages(int64_t n) const {
    return args_.sessions.data[n].none() ? 0 : args_.positions.data[n] / kKeyValuePage + 1;
  }

  struct Part {
    int64_t index, n, g, page;
    const T* keys;
    const T* values;
  };

  // Parts of a session: page after page of its first key/value head, then of its second.
  Part PartAt(int64_t part) const {
    const int64_t* const after = std::upper_bound(first_part_, first_part_ + sessions_, part);
    const int64_t n = after - first_part_ - 1;
    const int64_t g = (part - first_part_[n]) / Pages(n);
    const int64_t page = (part - first_part_[n]) % Pages(n);
    const LayerPages<T> layer = Layer(n);
    return {part, n, g, page, layer.Keys(page, g), layer.Values(page, g)};
  }

  LayerPages<T> Layer(int64_t n) const {
    return {shape_, args_.layer_offset, args_.sessions.data[n]};
  }

  void Append(int64_t n) const {
    if (args_.sessions.data[n].none()) return;
    for (int64_t g = 0; g < shape_.kv_heads; ++g) {
      AppendKeyValue(Layer(n), g, args_.positions.data[n], args_.k.row(n) + g * shape_.key,
                     args_.v.row(n) + g * shape_.value);
    }
  }

  // `next`: keys that are read next, or null.
  void ComputePart(const Part& part, const T* next) const {
    const int64_t position = args_.positions.data[part.n];
    const int64_t count = std::min(kKeyValuePage, position + 1 - part.page * kKeyValuePage);
    for (int64_t i = 0; i < shared_; i += kTileRows) {
      HWY_ALIGN float weights[kTileRows * kKeyValuePage];
      const int64_t rows = std::min(kTileRows, shared_ - i);
      const int64_t row = part.index * shared_ + i;
      ComputeScores(part, i, rows, count, weights);
      ComputeWeights(part, i, rows, count, weights);
      SumValues(part.values, next, rows, count, weights, values_ + row * shape_.value);
    }
  }

  // Computes the scores of `rows` heads, from the key/value head's i-th on.
  void ComputeScores(const Part& part, int64_t i, int64_t rows, int64_t count,
                     float* weights) const {
    TileArgsOf<T> tile{};
    for (int64_t r = 0; r < rows; ++r) {
      tile.a[r] = args_.q.row(part.n) + (part.g * shared_ + i + r) * shape_.key;
      tile.c[r] = weights + r * kKeyValuePage;
    }
    ScoreKeys(part.keys, shape_.key, count, rows, tile, part.values);
  }

  // Turns scores into weights relative to the page's maximum.
  void ComputeWeights(const Part& part, int64_t i, int64_t rows, int64_t count,
                      float* weights) const {
    const int64_t h = part.g * shared_ + i;
    const int64_t row = part.index * shared_ + i;
    const int64_t n = part.n;
    const WeightTag d;
    const int64_t window = args_.position_scores.dim(2);
    const int64_t distance = args_.positions.data[n] - part.page * kKeyValuePage;
    for (int64_t r = 0; r < rows; ++r) {
      float* weight = weights + r * kKeyValuePage;
      if (window > 0) {
        AddPositionScores(args_.position_scores.row(n) + (h + r) * window, window, distance, count,
                          weight);
      }
      const auto least = hn::Set(d, std::numeric_limits<float>::lowest());
      const auto maximum = LargestWeight(weight, count, least);
      maxima_[row + r] = hn::GetLane(maximum);
      const auto sum = Exponentials(maximum, count, nullptr, weight, hn::Zero(d));
      sums_[row + r] = hn::GetLane(hn::SumOfLanes(d, sum));
    }
  }

  // out[r] = sum of weights[r] times rows, in their order, one tile of columns after the other.
  // Meanwhile prefetches the rows that follow, and behind the last row `next`, if it is not null.
  void SumValues(const T* values, const T* next, int64_t rows, int64_t count, const float* weights,
                 float* out) const {
    std::fill_n(out, rows * shape_.value, 0.0F);
    TileArgsOf<T> tile{};
    tile.b_step = shape_.value;
    tile.b_vector = kTileLanes;
    tile.accumulate = true;
    tile.ahead_step = shape_.value;
    const int64_t whole = shape_.value / kTileLanes * kTileLanes;
    for (int64_t c = 0; c < whole; c += kTileColumns) {
      for (int64_t r = 0; r < rows; ++r) tile.c[r] = out + r * shape_.value + c;
      for (int64_t s = 0; s < count; s += kValueRun) {
        for (int64_t r = 0; r < rows; ++r) tile.a[r] = weights + r * kKeyValuePage + s;
        tile.b = values + s * shape_.value + c;
        tile.depth = std::min(kValueRun, count - s);
        tile.ahead = s + kValueRun < count      ? tile.b + kValueRun * shape_.value
                     : c + kTileColumns < whole ? values + c + kTileColumns
                                                : next;
        ComputeTile(rows, std::min(kTileVectors, (whole - c) / kTileLanes), tile);
      }
    }
    const hn::CappedTag<float, 1> d1;
    for (int64_t c = whole; c < shape_.value; ++c) {
      for (int64_t r = 0; r < rows; ++r) {
        auto sum = hn::Zero(d1);
        for (int64_t s = 0; s < count; ++s) {
          sum = hn::MulAdd(hn::LoadU(d1, weights + r * kKeyValuePage + s),
                           LoadValues(d1, values + s * shape_.value + c), sum);
        }
        hn::StoreU(sum, d1, out + r * shape_.value + c);
      }
    }
  }

  void Merge(int64_t n, int64_t h) const {
    const WeightTag d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const int64_t values = shape_.value;
    float* out = args_.out.row(n) + h * values;
    std::fill_n(out, values, 0.0F);
    const int64_t pages = Pages(n);
    if (pages == 0) return;
    const int64_t first = (first_part_[n] + h / shared_ * pages) * shared_ + h % shared_;
    float maximum = maxima_[first];
    for (int64_t p = 1; p < pages; ++p) maximum = std::max(maximum, maxima_[first + p * shared_]);
    float total = 0;
    for (int64_t p = 0; p < pages; ++p) {
      const int64_t row = first + p * shared_;
      const auto factor = FastExp(d, hn::Set(d, maxima_[row] - maximum));
      total += hn::GetLane(factor) * sums_[row];
      const float* part = values_ + row * values;
      for (int64_t c = 0; c < values; c += lanes) {
        const auto count = static_cast<size_t>(values - c);
        const auto sum =
            hn::MulAdd(factor, LoadFirst(d, part + c, count), LoadFirst(d, out + c, count));
        StoreFirst(sum, d, out + c, count);
      }
    }
    DivideRow(total, values, out);
  }

  const SoftmaxDecodeAttentionArgs& args_;
  const KeyValueShape& shape_;
  const int64_t sessions_;
  const int64_t heads_;
  const int64_t shared_;  // heads per key/value head
  int64_t* const first_part_;
  float* maxima_;  // [parts, shared]
  float* sums_;    // [parts, shared]
  float* values_;  // [parts, shared, V]
};

void SoftmaxDecodeAll(CpuDevice& cpu, const SoftmaxDecodeAttentionArgs& args) {
  if (args.shape.dtype == DType::kFloat32) {
    SoftmaxDecode<float>(cpu, args);
  } else {
    SoftmaxDecode<BFloat16>(cpu, args);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {

HWY_EXPORT(SoftmaxDecodeAll);

absl::Status CpuSoftmaxDecodeAttention(Device& device, const SoftmaxDecodeAttentionArgs& args) {
  HWY_DYNAMIC_DISPATCH(SoftmaxDecodeAll)(AsCpu(device), args);
  return absl::OkStatus();
}

}  // namespace tvq
#endif
