// VqDecodeAttention in two phases. Weights: a task per session and key/value head, almost no
// memory. Values: a task per session, key/value head and tile of columns, which appends the new
// position's columns and then reads each row of the tile once for all heads that share it.
//
// Bytes per session, layer and key/value head: 4 V per code with n > 0, SizeOf(value_dtype) V per
// recent position; this is what a step costs, and rows are prefetched so that it streams.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vq_attention/decode.cc"
#include <algorithm>

#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vq_attention/keys.h"
#include "kernels/cpu/vq_attention/values-inl.h"
#include "kernels/cpu/vq_attention/weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

// Rows that pass together: one load and store of a sum for 8 rows.
inline constexpr int64_t kRowGroup = 8;
inline constexpr int64_t kLineBytes = 64;

// Some rows of values and the sums they go to.
template <typename T>
struct RowSums {
  const T* base;  // row i at base + row[i] * stride, columns of the tile first
  int64_t stride;
  const int32_t* row;
  int64_t count;
  int64_t columns;      // of the tile
  int64_t heads;        // that share the rows
  const float* weight;  // of row i for head h: weight[h * weight_stride + i]
  int64_t weight_stride;
  float* out;  // sums of head h: out + h * out_stride
  int64_t out_stride;
  const T* Row(int64_t i) const { return base + row[i] * stride; }
};

template <typename T>
HWY_INLINE void PrefetchRow(const T* row, int64_t columns) {
  for (int64_t c = 0; c < columns; c += kLineBytes / static_cast<int64_t>(sizeof(T))) {
    __builtin_prefetch(row + c);
  }
}

// Asks for the first group of rows.
template <typename T>
HWY_INLINE void PrefetchFirstRows(const RowSums<T>& s) {
  for (int64_t i = 0; i < std::min(kRowGroup, s.count); ++i) {
    PrefetchRow(s.Row(i), s.columns);
  }
}

// out[h] += sum over rows [first, first + kRows) in order, of weight * row. The rows of the next
// group are asked for meanwhile, line by line.
template <int kRows, typename T>
HWY_INLINE void AddRows(const RowSums<T>& s, int64_t first) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t kLine = kLineBytes / static_cast<int64_t>(sizeof(T));
  const T* row[kRows];
  const T* next[kRows];
  for (int i = 0; i < kRows; ++i) {
    row[i] = s.Row(first + i);
    next[i] = s.Row(std::min(first + kRows + i, s.count - 1));
  }
  for (int64_t h = 0; h < s.heads; ++h) {
    float weight[kRows];
    for (int i = 0; i < kRows; ++i) weight[i] = s.weight[h * s.weight_stride + first + i];
    float* HWY_RESTRICT out = s.out + h * s.out_stride;
    const auto add = [&](auto tag, int64_t c) HWY_ATTR {
      auto sum = hn::LoadU(tag, out + c);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) {
        sum = hn::MulAdd(hn::Set(tag, weight[i]), LoadValues(tag, row[i] + c), sum);
      }
      hn::StoreU(sum, tag, out + c);
    };
    int64_t c = 0;
    for (; c + kLine <= s.columns; c += kLine) {
      if (h == 0) {
#pragma GCC unroll 8
        for (int i = 0; i < kRows; ++i) __builtin_prefetch(next[i] + c);
      }
      for (int64_t j = 0; j < kLine; j += lanes) add(d, c + j);
    }
    for (; c + lanes <= s.columns; c += lanes) add(d, c);
    for (; c < s.columns; ++c) add(hn::CappedTag<float, 1>(), c);
  }
}

// Calls `near_end` once, when about a group of rows is left.
template <typename T, class NearEnd>
void AddAllRows(const RowSums<T>& sums, const NearEnd& near_end) {
  int64_t i = 0;
  for (; i + 2 * kRowGroup <= sums.count; i += kRowGroup) AddRows<kRowGroup>(sums, i);
  near_end();
  for (; i + kRowGroup <= sums.count; i += kRowGroup) AddRows<kRowGroup>(sums, i);
  for (; i < sums.count; ++i) AddRows<1>(sums, i);
}

template <typename T>
class Decode {
 public:
  Decode(CpuDevice& cpu, const VqDecodeAttentionArgs& args)
      : args_(args),
        shape_(args.shape),
        shared_(args.code_scores.dim(1) / args.shape.kv_heads),
        units_(args.states.size() * args.shape.kv_heads),
        max_keys_(AttentionKeys::MaxSize(shape_.codes, shape_.window)),
        key_bytes_(AttentionKeys::Bytes(shape_.codes, shape_.window)),
        units_memory_(cpu.Scratch<Unit>(0, units_)),
        key_memory_(cpu.Scratch<char>(1, units_ * key_bytes_)),
        weights_(cpu.Scratch<float>(2, units_ * shared_ * max_keys_)) {
    RunTasks(cpu, units_, units_ * shared_ * max_keys_ * 32,
             [&](int64_t unit) { ComputeWeights(unit); });
    const int64_t columns = TaskColumns(units_, shape_.value, cpu.pool().threads());
    const int64_t tiles = (shape_.value + columns - 1) / columns;
    RunTasks(cpu, units_ * tiles, units_ * max_keys_ * shape_.value * 4, [&](int64_t task) {
      const int64_t first = task % tiles * columns;
      SumValues(task / tiles, first, std::min(first + columns, shape_.value));
    });
  }

 private:
  // A session's key/value head.
  struct Unit {
    AttentionKeys keys;
    int32_t retired;
  };

  float* Weights(int64_t unit) { return weights_ + unit * shared_ * max_keys_; }

  void ComputeWeights(int64_t unit) {
    const int64_t n = unit / shape_.kv_heads;
    const int64_t g = unit % shape_.kv_heads;
    const VqState& state = args_.states.data[n];
    if (state.none()) return;
    const int64_t position = args_.positions.data[n];
    Unit& u = units_memory_[unit];
    u.retired = AppendCode(shape_, state, g, position, args_.codes.row(n)[g]);
    u.keys =
        AttentionKeys::Collect(shape_, state, g, std::max<int64_t>(0, position + 1 - shape_.window),
                               position + 1, shape_.window, key_memory_ + unit * key_bytes_);
    for (int64_t i = 0; i < shared_; ++i) {
      const int64_t h = g * shared_ + i;
      SoftmaxWeights(
          u.keys, u.keys.recent, shape_.window, args_.code_scores.row(n) + h * shape_.codes,
          args_.position_scores.row(n) + h * shape_.window, Weights(unit) + i * max_keys_);
    }
  }

  void SumValues(int64_t unit, int64_t first, int64_t end) {
    const int64_t n = unit / shape_.kv_heads;
    const int64_t g = unit % shape_.kv_heads;
    const VqState& state = args_.states.data[n];
    const Unit& u = units_memory_[unit];
    const int64_t columns = end - first;
    const AttentionKeys& keys = u.keys;
    float* out = args_.out.row(n) + g * shared_ * shape_.value + first;
    if (state.none()) {
      for (int64_t h = 0; h < shared_; ++h) std::fill_n(out + h * shape_.value, columns, 0.0F);
      return;
    }
    const RowSums<float> retired{state.sum + g * shape_.codes * shape_.value + first,
                                 shape_.value,
                                 keys.row,
                                 keys.live,
                                 columns,
                                 shared_,
                                 Weights(unit),
                                 max_keys_,
                                 out,
                                 shape_.value};
    const T* window = static_cast<const T*>(state.window_value);
    const RowSums<T> recent{window + g * shape_.window * shape_.value + first,
                            shape_.value,
                            keys.row + keys.RecentOffset(),
                            keys.recent,
                            columns,
                            shared_,
                            Weights(unit) + keys.RecentOffset(),
                            max_keys_,
                            out,
                            shape_.value};
    const AppendRows<T> append = RowsOf<T>(shape_, state, g, args_.positions.data[n], u.retired);
    PrefetchRow(append.slot + first, columns);
    if (append.sum != nullptr) {
      PrefetchRow(append.sum + first, columns);
      PrefetchRow(append.carry + first, columns);
    }
    PrefetchFirstRows(retired);

    AppendValues(append, args_.v.row(n) + g * shape_.value, first, end);
    for (int64_t h = 0; h < shared_; ++h) std::fill_n(out + h * shape_.value, columns, 0.0F);
    AddAllRows(retired, [&] { PrefetchFirstRows(recent); });
    AddAllRows(recent, [] {});
  }

  const VqDecodeAttentionArgs& args_;
  const VqShape& shape_;
  const int64_t shared_;  // heads per key/value head
  const int64_t units_;
  const int64_t max_keys_;
  const int64_t key_bytes_;
  Unit* const units_memory_;
  char* const key_memory_;
  float* const weights_;
};

void VqDecodeAll(CpuDevice& cpu, const VqDecodeAttentionArgs& args) {
  if (args.shape.value_dtype == DType::kFloat32) {
    Decode<float>(cpu, args);
  } else {
    Decode<BFloat16>(cpu, args);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {

HWY_EXPORT(VqDecodeAll);

absl::Status CpuVqDecodeAttention(Device& device, const VqDecodeAttentionArgs& args) {
  HWY_DYNAMIC_DISPATCH(VqDecodeAll)(AsCpu(device), args);
  return absl::OkStatus();
}

}  // namespace tvq
#endif
