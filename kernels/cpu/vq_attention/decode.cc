// VqDecodeAttention in two phases. Weights: a task per session and key/value head, almost no
// memory. Values: a task per session, key/value head and tile of columns, which appends the new
// position's columns and then reads each row of the tile once for all heads that share it.
//
// Bytes per session, layer and key/value head: 4 V per code with n > 0, SizeOf(value_dtype) V per
// recent position, or 17/16 V for either where they are read from the copy; less what rows are left
// out. This is what a step costs, and rows are prefetched so that it streams, also those that do
// not follow one another.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vq_attention/decode.cc"
#include <algorithm>

#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vq_attention/keys.h"
#include "kernels/cpu/vq_attention/read_copy-inl.h"
#include "kernels/cpu/vq_attention/row_sums-inl.h"
#include "kernels/cpu/vq_attention/skip.h"
#include "kernels/cpu/vq_attention/values-inl.h"
#include "kernels/cpu/vq_attention/weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

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
        weights_(cpu.Scratch<float>(2, units_ * shared_ * max_keys_)),
        kept_memory_(cpu.Scratch<uint8_t>(3, units_ * max_keys_)) {
    RunTasks(cpu, units_, units_ * shared_ * max_keys_ * 32,
             [&](int64_t unit) { ComputeWeights(unit); });
    const int64_t columns = Columns(cpu.pool().threads());
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
    ReadRun codes;   // rows of the accumulator
    ReadRun recent;  // rows of the window
    int32_t retired;
  };

  bool copied() const { return shape_.read != VqRead::kExact; }

  // Of a task; of a copy whole scales.
  int64_t Columns(int threads) const {
    const int64_t columns = TaskColumns(units_, shape_.value, threads);
    if (!copied()) return columns;
    return (columns + kVqScaleColumns - 1) / kVqScaleColumns * kVqScaleColumns;
  }

  float* Weights(int64_t unit) const { return weights_ + unit * shared_ * max_keys_; }

  void ComputeWeights(int64_t unit) {
    const int64_t n = unit / shape_.kv_heads;
    const int64_t g = unit % shape_.kv_heads;
    const VqState& state = args_.states.data[n];
    if (state.none()) {
      ReportNothing(n, g);
      return;
    }
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
    ChooseRows(unit, n, g);
  }

  void ChooseRows(int64_t unit, int64_t n, int64_t g) {
    Unit& u = units_memory_[unit];
    const SharedWeights weights{Weights(unit), max_keys_, shared_};
    // A mean row stands for all of its code's positions, a sum is all of them.
    if (copied()) WeighMeans(u.keys, weights);
    const int64_t rows = u.keys.live + u.keys.recent;
    u.codes = {u.keys.row, 0, u.keys.live};
    u.recent = {u.keys.row + u.keys.RecentOffset(), u.keys.RecentOffset(), u.keys.recent};
    float* skipped = args_.skipped_mass.empty() ? nullptr : args_.skipped_mass.row(n) + g * shared_;
    if (args_.skip_mass > 0) {
      SkipRows({u.keys, copied(), weights, args_.skip_mass, kept_memory_ + unit * max_keys_},
               u.codes, u.recent, skipped);
    } else if (skipped != nullptr) {
      std::fill_n(skipped, shared_, 0.0F);
    }
    if (args_.row_reads.empty()) return;
    int32_t* reads = args_.row_reads.row(n) + 2 * g;
    reads[0] = static_cast<int32_t>(rows);
    reads[1] = static_cast<int32_t>(u.codes.count + u.recent.count);
  }

  void ReportNothing(int64_t n, int64_t g) const {
    if (!args_.skipped_mass.empty()) {
      std::fill_n(args_.skipped_mass.row(n) + g * shared_, shared_, 0.0F);
    }
    if (!args_.row_reads.empty()) std::fill_n(args_.row_reads.row(n) + 2 * g, 2, 0);
  }

  // Rows of a run, from the exact state or from its copy.
  template <typename R>
  RowSums<R> Sums(int64_t unit, const ReadRun& run, const R* rows, int64_t columns,
                  float* out) const {
    return {.base = rows,
            .stride = shape_.value,
            .row = run.row,
            .count = run.count,
            .columns = columns,
            .heads = shared_,
            .weight = Weights(unit) + run.offset,
            .weight_stride = max_keys_,
            .out = out,
            .out_stride = shape_.value};
  }
  RowSums<int8_t> CopySums(int64_t unit, const ReadRun& run, const int8_t* rows,
                           const float* scales, int64_t columns, float* out) const {
    RowSums<int8_t> sums = Sums(unit, run, rows, columns, out);
    sums.scales = scales;
    sums.scale_stride = shape_.scales();
    return sums;
  }

  void SumValues(int64_t unit, int64_t first, int64_t end) {
    const int64_t n = unit / shape_.kv_heads;
    const int64_t g = unit % shape_.kv_heads;
    const VqState& state = args_.states.data[n];
    const Unit& u = units_memory_[unit];
    const int64_t columns = end - first;
    float* out = args_.out.row(n) + g * shared_ * shape_.value + first;
    for (int64_t h = 0; h < shared_; ++h) std::fill_n(out + h * shape_.value, columns, 0.0F);
    if (state.none()) return;
    const int64_t accumulator = g * shape_.codes, window = g * shape_.window;
    if (copied()) {
      const int64_t scale = first / kVqScaleColumns;
      AppendAndAdd(n, g, first, end, u.retired,
                   CopySums(unit, u.codes, state.mean + accumulator * shape_.value + first,
                            state.mean_scale + accumulator * shape_.scales() + scale, columns, out),
                   CopySums(unit, u.recent, state.recent + window * shape_.value + first,
                            state.recent_scale + window * shape_.scales() + scale, columns, out));
    } else {
      const T* values = static_cast<const T*>(state.window_value);
      AppendAndAdd<float, T>(
          n, g, first, end, u.retired,
          Sums<float>(unit, u.codes, state.sum + accumulator * shape_.value + first, columns, out),
          Sums<T>(unit, u.recent, values + window * shape_.value + first, columns, out));
    }
  }

  template <typename A, typename B>
  void AppendAndAdd(int64_t n, int64_t g, int64_t first, int64_t end, int32_t retired,
                    const RowSums<A>& codes, const RowSums<B>& recent) {
    const VqState& state = args_.states.data[n];
    const int64_t position = args_.positions.data[n];
    const AppendRows<T> append = RowsOf<T>(shape_, state, g, position, retired);
    PrefetchRow(append.slot + first, end - first);
    if (append.sum != nullptr) {
      PrefetchRow(append.sum + first, end - first);
      PrefetchRow(append.carry + first, end - first);
    }
    PrefetchFirstRows(codes);

    AppendValues(append, args_.v.row(n) + g * shape_.value, first, end);
    RefreshCopy<T>(shape_, state, g, position, retired, first, end);
    AddAllRows(codes, [&] { PrefetchFirstRows(recent); });
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
  uint8_t* const kept_memory_;
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
