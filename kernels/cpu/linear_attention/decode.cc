// LinearDecodeAttention has two phases. Features: a task for each session and key/value head lays
// out the features, adds the key's to b and computes the denominators; it touches almost no memory.
// Values: a task for each session, key/value head and tile of columns adds the new position to each
// row of A and, while the row is in registers, multiplies it with the features of all queries that
// share it.
//
// Bytes per session, layer and key/value head: A's sums and carries are read and written once, 16 F
// V. This is what a step costs, and rows are prefetched so that memory is never idle.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear_attention/decode.cc"
#include <algorithm>

#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/linear_attention/features-inl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/run_ahead.h"
#include "kernels/ops/attention/linear_attention.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

// So many rows of A are computed together, with one load and store of an output for all of them.
inline constexpr int64_t kRowGroup = 8;
inline constexpr int64_t kLineFloats = 16;
// Rows are prefetched up to this many floats ahead, but at least one group of rows. Adding to this
// many floats takes longer than a read from memory.
inline constexpr int64_t kAheadFloats = 2048;

// A tile of columns of A, the position that is added to it, and the queries that read it.
struct StateTile {
  float* sum;  // row i, columns of the tile first: sum + i * stride
  float* carry;
  int64_t stride;
  int64_t rows;
  const float* next_sum;  // of the tile that follows, or null
  const float* next_carry;
  int64_t columns;
  const float* key;    // features [rows]
  const float* value;  // [columns]
  const float* query;  // features of head h: query + h * query_stride
  int64_t query_stride;
  int64_t heads;
  float* out;  // of head h: out + h * stride
};

// Adds key value^T to rows [first, first + kRows) of A. Then adds these rows times the query's
// features to out[h], in order. Rows ahead are prefetched meanwhile, line by line.
template <int kRows>
HWY_INLINE void StepRows(const StateTile& s, int64_t first) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  float* sum[kRows];
  float* carry[kRows];
  float key[kRows];
  for (int i = 0; i < kRows; ++i) {
    sum[i] = s.sum + (first + i) * s.stride;
    carry[i] = s.carry + (first + i) * s.stride;
    key[i] = s.key[first + i];
  }
  const int64_t rows_ahead = std::max<int64_t>(1, kAheadFloats / (kRows * s.columns)) * kRows;
  const int64_t ahead = first + rows_ahead;
  const float* ahead_sum = sum[0];  // when there is nothing to prefetch
  const float* ahead_carry = carry[0];
  if (ahead + kRows <= s.rows) {
    ahead_sum = s.sum + ahead * s.stride;
    ahead_carry = s.carry + ahead * s.stride;
  } else if (s.next_sum != nullptr && ahead - s.rows + kRows <= s.rows && ahead >= s.rows) {
    ahead_sum = s.next_sum + (ahead - s.rows) * s.stride;
    ahead_carry = s.next_carry + (ahead - s.rows) * s.stride;
  }
  const auto step = [&](auto tag, int64_t c) HWY_ATTR {
    const auto value = hn::LoadU(tag, s.value + c);
    hn::Vec<decltype(tag)> row[kRows];
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      row[i] = AddTwoSum(tag, hn::Mul(hn::Set(tag, key[i]), value), sum[i] + c, carry[i] + c);
    }
    for (int64_t h = 0; h < s.heads; ++h) {
      const float* query = s.query + h * s.query_stride + first;
      float* out = s.out + h * s.stride + c;
      auto total = hn::LoadU(tag, out);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) total = hn::MulAdd(hn::Set(tag, query[i]), row[i], total);
      hn::StoreU(total, tag, out);
    }
  };
  int64_t c = 0;
  for (; c + kLineFloats <= s.columns; c += kLineFloats) {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      __builtin_prefetch(ahead_sum + i * s.stride + c, 1);
      __builtin_prefetch(ahead_carry + i * s.stride + c, 1);
    }
    for (int64_t j = 0; j < kLineFloats; j += lanes) step(d, c + j);
  }
  for (; c + lanes <= s.columns; c += lanes) step(d, c);
  for (; c < s.columns; ++c) step(hn::CappedTag<float, 1>(), c);
}

class LinearDecode {
 public:
  LinearDecode(CpuDevice& cpu, const LinearDecodeAttentionArgs& args)
      : args_(args),
        shape_(args.shape),
        shared_(args.q.dim(1) / shape_.kv_heads),
        padded_(PadFeatures(shape_.features)),
        units_(args.states.size() * shape_.kv_heads),
        features_(cpu.Scratch<float>(0, units_ * (shared_ + 1) * padded_)),
        denominators_(cpu.Scratch<float>(1, units_ * shared_)) {
    RunTasks(cpu, units_, units_ * (shared_ + 1) * padded_ * 16,
             [&](int64_t unit) { ComputeUnit(unit); });
    const int64_t columns = TaskColumns(units_, shape_.value, cpu.pool().threads());
    const int64_t tiles = (shape_.value + columns - 1) / columns;
    RunAhead(cpu, units_ * tiles, units_ * shape_.features * shape_.value * 16,
             [&](int64_t task, int64_t next) {
               const int64_t first = task % tiles * columns;
               StepTile(task / tiles, first, std::min(first + columns, shape_.value),
                        tiles == 1 ? next : units_);
             });
  }

 private:
  // A unit is a session's key/value head. Its features: the key's, then its queries'.
  float* Features(int64_t unit) const { return features_ + unit * (shared_ + 1) * padded_; }

  void ComputeUnit(int64_t unit) const {
    const int64_t n = unit / shape_.kv_heads;
    const int64_t g = unit % shape_.kv_heads;
    const LinearState& state = args_.states.data[n];
    if (state.none()) return;
    float* features = Features(unit);
    float* sum = state.key_sum + g * shape_.features;
    CopyFeatures(args_.k.row(n) + g * shape_.features, shape_.features, features);
    AppendKey(features, shape_.features, sum, state.key_carry + g * shape_.features);
    for (int64_t i = 0; i < shared_; ++i) {
      features += padded_;
      CopyFeatures(args_.q.row(n) + (g * shared_ + i) * shape_.features, shape_.features, features);
      if (args_.query_exponents) ExponentiateSeen(sum, features);
      denominators_[unit * shared_ + i] = DotFeatures(features, sum, shape_.features);
    }
  }

  // Exponentiates those of a query's features that keys have reached; b includes the new position.
  void ExponentiateSeen(const float* b, float* features) const {
    const FeatureTag d;
    const auto seen = [&](int64_t i) HWY_ATTR {
      const auto rest = static_cast<size_t>(shape_.features - i);
      return hn::Ge(LoadFirst(d, b + i, rest), hn::Set(d, kLeastReached));
    };
    ExponentiateReached(shape_.features, seen, features);
  }

  // The rows of A of a unit; null where its state is none.
  struct Rows {
    float* sum;
    float* carry;
  };
  Rows RowsOf(int64_t unit) const {
    const LinearState& state = args_.states.data[unit / shape_.kv_heads];
    if (state.none()) return {nullptr, nullptr};
    const int64_t start = unit % shape_.kv_heads * shape_.features * shape_.value;
    return {state.key_value_sum + start, state.key_value_carry + start};
  }

  // Computes columns [first, end) of a unit. The same columns of `next_unit` follow, or nothing if
  // it is units_.
  void StepTile(int64_t unit, int64_t first, int64_t end, int64_t next_unit) const {
    const int64_t n = unit / shape_.kv_heads;
    const int64_t g = unit % shape_.kv_heads;
    const int64_t columns = end - first;
    float* out = args_.out.row(n) + g * shared_ * shape_.value + first;
    for (int64_t h = 0; h < shared_; ++h) std::fill_n(out + h * shape_.value, columns, 0.0F);
    const Rows rows = RowsOf(unit);
    if (rows.sum == nullptr) return;
    const Rows next = next_unit < units_ ? RowsOf(next_unit) : Rows();
    const StateTile tile{rows.sum + first,
                         rows.carry + first,
                         shape_.value,
                         shape_.features,
                         next.sum,
                         next.carry,
                         columns,
                         Features(unit),
                         args_.v.row(n) + g * shape_.value + first,
                         Features(unit) + padded_,
                         padded_,
                         shared_,
                         out};
    int64_t row = 0;
    for (; row + kRowGroup <= tile.rows; row += kRowGroup) StepRows<kRowGroup>(tile, row);
    for (; row < tile.rows; ++row) StepRows<1>(tile, row);
    for (int64_t h = 0; h < shared_; ++h) {
      DivideRow(denominators_[unit * shared_ + h], columns, out + h * shape_.value);
    }
  }

  const LinearDecodeAttentionArgs& args_;
  const LinearShape& shape_;
  const int64_t shared_;  // heads per key/value head
  const int64_t padded_;
  const int64_t units_;
  float* const features_;      // [units, 1 + shared, padded]
  float* const denominators_;  // [units, shared]
};

void LinearDecodeAll(CpuDevice& cpu, const LinearDecodeAttentionArgs& args) {
  LinearDecode(cpu, args);
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {

HWY_EXPORT(LinearDecodeAll);

absl::Status CpuLinearDecodeAttention(Device& device, const LinearDecodeAttentionArgs& args) {
  HWY_DYNAMIC_DISPATCH(LinearDecodeAll)(AsCpu(device), args);
  return absl::OkStatus();
}

}  // namespace tvq
#endif
