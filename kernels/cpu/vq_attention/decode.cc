// VqDecodeAttention in two phases. Weights: a task per session and key/value head, almost no
// memory, which also appends the position's values. Values: a task per session, key/value head,
// half of the chosen rows where there is a copy, and tile of columns, which reads each row of the
// tile once for all heads that share it. Where sessions are many a task has both phases of one, so
// that some threads read while others compute.
//
// Sums of the copy's rows are two, of halves, whoever computes them, and are added at the end: two
// threads share one session so, where narrow tiles of int8 would be too short to stream.
//
// Rows of one state come one after the other: the first row of every state, then the second of
// those that have one, since each row changes what the next one reads. What a row reads is in the
// cache then, from the row before it.
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
#include "kernels/cpu/vq_attention/copy_sums-inl.h"
#include "kernels/cpu/vq_attention/keys.h"
#include "kernels/cpu/vq_attention/read_copy-inl.h"
#include "kernels/cpu/vq_attention/row_sums-inl.h"
#include "kernels/cpu/vq_attention/skip-inl.h"
#include "kernels/cpu/vq_attention/undo.h"
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
        rows_(cpu.Scratch<int64_t>(6, args.states.size())),
        units_(args.states.size() * args.shape.kv_heads),
        max_keys_(AttentionKeys::MaxSize(shape_.codes, shape_.window)),
        key_bytes_(AttentionKeys::Bytes(shape_.codes, shape_.window)),
        units_memory_(cpu.Scratch<Unit>(0, units_)),
        key_memory_(cpu.Scratch<char>(1, units_ * key_bytes_)),
        weights_(cpu.Scratch<float>(2, units_ * shared_ * max_keys_)),
        kept_memory_(cpu.Scratch<uint8_t>(3, units_ * KeptBytes())),
        thresholds_(cpu.Scratch<float>(4, units_ * shared_)),
        second_sums_(cpu.Scratch<float>(5, copied() ? units_ * shared_ * shape_.value : 0)),
        dot_(DotFunction(cpu.dot())) {
    for (int64_t first = 0, turn = 0; first < args.states.size(); ++turn) {
      const int64_t rows = TakeRows(turn, first);
      Attend(cpu, first * shape_.kv_heads, rows * shape_.kv_heads);
      first += rows;
    }
  }

 private:
  // A session's key/value head.
  struct Unit {
    AttentionKeys keys;
    ReadRun codes;   // rows of the accumulator
    ReadRun recent;  // rows of the window
  };

  // Puts the rows that have `turn` rows of the same state before them into rows_ from `first` on,
  // and says how many they are.
  int64_t TakeRows(int64_t turn, int64_t first) {
    int64_t count = 0, before = 0;
    for (int64_t n = 0; n < args_.states.size(); ++n) {
      const VqState& state = args_.states.data[n];
      before = n > 0 && !state.none() && state.sum == args_.states.data[n - 1].sum ? before + 1 : 0;
      if (before == turn) rows_[first + count++] = n;
    }
    return count;
  }

  // Of all states different ones.
  void Attend(CpuDevice& cpu, int64_t first_unit, int64_t units) {
    const int threads = cpu.pool().threads();
    const int64_t columns = Columns(units, threads);
    const int64_t tiles = (shape_.value + columns - 1) / columns;
    const int64_t work = units * max_keys_ * shape_.value * 4;
    const auto sum_tile = [&](int64_t unit, int64_t tile, int64_t first_half, int64_t halves) {
      const int64_t first = tile * columns;
      SumValues(unit, first, std::min(first + columns, shape_.value), first_half, halves);
    };
    if (units >= kUnitsForWholeTasks * threads) {
      RunTasks(cpu, units, work, [&](int64_t task) {
        const int64_t unit = first_unit + task;
        ComputeWeights(unit);
        for (int64_t tile = 0; tile < tiles; ++tile) sum_tile(unit, tile, 0, 2);
        AddSecondHalf(unit);
      });
      return;
    }
    RunTasks(cpu, units, units * shared_ * max_keys_ * 32,
             [&](int64_t task) { ComputeWeights(first_unit + task); });
    const int64_t halves = copied() ? 2 : 1;
    RunTasks(cpu, units * halves * tiles, work, [&](int64_t task) {
      sum_tile(first_unit + task / (halves * tiles), task % tiles, task / tiles % halves, 1);
    });
    for (int64_t i = 0; i < units; ++i) AddSecondHalf(first_unit + i);
  }

  // Of each thread: enough that none waits long for the last ones.
  static constexpr int64_t kUnitsForWholeTasks = 4;

  bool copied() const { return shape_.read != VqRead::kExact; }

  // Of a task; of a copy whole scales.
  int64_t Columns(int64_t units, int threads) const {
    if (!copied()) return TaskColumns(units, shape_.value, threads);
    const int64_t columns = TaskColumns(2 * units, shape_.value, threads, kCopyColumns);
    return (columns + kVqScaleColumns - 1) / kVqScaleColumns * kVqScaleColumns;
  }

  static AddCopyGroupFunction DotFunction(const DotInstructions& dot) {
    if (dot.int8) return AddCopyGroupDot;
    return dot.int8_256 ? AddCopyGroupDot256 : nullptr;
  }

  // Of a unit, with what is read behind the last bits.
  int64_t KeptBytes() const { return max_keys_ + 8; }

  int64_t RowOf(int64_t unit) const { return rows_[unit / shape_.kv_heads]; }
  const VqState& StateOf(int64_t unit) const { return args_.states.data[RowOf(unit)]; }

  float* Weights(int64_t unit) const { return weights_ + unit * shared_ * max_keys_; }

  void ComputeWeights(int64_t unit) {
    const int64_t n = RowOf(unit);
    const int64_t g = unit % shape_.kv_heads;
    const VqState& state = StateOf(unit);
    if (state.none()) {
      ReportNothing(n, g);
      return;
    }
    const int64_t position = args_.positions.data[n];
    Unit& u = units_memory_[unit];
    KeepOverwritten(shape_, state, g, position);
    const int32_t retired = AppendCode(shape_, state, g, position, args_.codes.row(n)[g]);
    const AppendRows<T> append = RowsOf<T>(shape_, state, g, position, retired);
    PrefetchAppend(append);
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
    AppendValues(append, args_.v.row(n) + g * shape_.value, 0, shape_.value);
    RefreshCopy<T>(shape_, state, g, position, retired, 0, shape_.value);
  }

  void PrefetchAppend(const AppendRows<T>& append) const {
    PrefetchRow(append.slot, shape_.value);
    if (append.sum == nullptr) return;
    PrefetchRow(append.sum, shape_.value);
    PrefetchRow(append.carry, shape_.value);
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
      SkipRows({u.keys, copied(), weights, args_.skip_mass, thresholds_ + unit * shared_,
                kept_memory_ + unit * KeptBytes()},
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

  float* Out(int64_t unit) const {
    return args_.out.row(RowOf(unit)) + unit % shape_.kv_heads * shared_ * shape_.value;
  }
  // [heads, V], as in `out`.
  float* SecondSums(int64_t unit) const { return second_sums_ + unit * shared_ * shape_.value; }

  void FillZero(float* out, int64_t columns) const {
    for (int64_t h = 0; h < shared_; ++h) std::fill_n(out + h * shape_.value, columns, 0.0F);
  }

  // Columns [first, end) of the sums of `halves` halves of the rows; without a copy of all.
  void SumValues(int64_t unit, int64_t first, int64_t end, int64_t first_half, int64_t halves) {
    const VqState& state = StateOf(unit);
    const int64_t columns = end - first;
    if (state.none()) {
      FillZero(Out(unit) + first, columns);
    } else if (copied()) {
      SumCopies(unit, state, first, columns, first_half, halves);
    } else {
      SumExact(unit, state, first, columns);
    }
  }

  void SumExact(int64_t unit, const VqState& state, int64_t first, int64_t columns) {
    const int64_t g = unit % shape_.kv_heads;
    const Unit& u = units_memory_[unit];
    float* out = Out(unit) + first;
    FillZero(out, columns);
    const float* sum = state.sum + g * shape_.codes * shape_.value + first;
    const T* value =
        static_cast<const T*>(state.window_value) + g * shape_.window * shape_.value + first;
    const auto codes = Sums<float>(unit, u.codes, sum, columns, out);
    const auto recent = Sums<T>(unit, u.recent, value, columns, out);
    PrefetchFirstRows(codes);
    AddAllRows(codes, [&] { PrefetchFirstRows(recent); });
    AddAllRows(recent, [] {});
  }

  // Half of the rows that are read, whole groups: rows [first, end) of both runs together. Sums of
  // the first half go to `out`.
  struct Half {
    int64_t first, end;
  };
  Half HalfOf(int64_t unit, int64_t half) const {
    const Unit& u = units_memory_[unit];
    const int64_t rows = u.codes.count + u.recent.count;
    const int64_t cut = (rows / 2 + kCopyGroup - 1) / kCopyGroup * kCopyGroup;
    return half == 0 ? Half{0, std::min(cut, rows)} : Half{std::min(cut, rows), rows};
  }

  void SumCopies(int64_t unit, const VqState& state, int64_t first, int64_t columns,
                 int64_t first_half, int64_t halves) {
    const int64_t g = unit % shape_.kv_heads;
    const Unit& u = units_memory_[unit];
    CopySums parts[4] = {};
    int64_t count = 0;
    for (int64_t half = first_half; half < first_half + halves; ++half) {
      float* out = (half == 0 ? Out(unit) : SecondSums(unit)) + first;
      FillZero(out, columns);
      const auto add_part = [&](const ReadRun& run, int64_t begin, int64_t row, const int8_t* rows,
                                const float* scales) {
        const auto [half_first, half_end] = HalfOf(unit, half);
        const int64_t from = std::clamp<int64_t>(half_first - begin, 0, run.count);
        const int64_t to = std::clamp<int64_t>(half_end - begin, 0, run.count);
        if (from == to) return;
        const ReadRun part{run.row + from, run.offset + from, to - from};
        parts[count++] = {.rows = Sums(unit, part, rows + row * shape_.value + first, columns, out),
                          .scales = scales + row * shape_.scales() + first / kVqScaleColumns,
                          .scale_stride = shape_.scales()};
      };
      add_part(u.codes, 0, g * shape_.codes, state.mean, state.mean_scale);
      add_part(u.recent, u.codes.count, g * shape_.window, state.recent, state.recent_scale);
    }
    CopyAdder adder(dot_ != nullptr ? FactorForm::kBytes : FactorForm::kPairs,
                    dot_ != nullptr ? dot_ : AddCopyGroup);
    if (count > 0) adder.Fetch(parts[0]);
    for (int64_t i = 0; i < count; ++i) {
      adder.Add(parts[i], i + 1 < count ? &parts[i + 1] : nullptr);
    }
  }

  void AddSecondHalf(int64_t unit) {
    if (!copied() || StateOf(unit).none()) return;
    float* HWY_RESTRICT out = Out(unit);
    const float* HWY_RESTRICT second = SecondSums(unit);
    for (int64_t i = 0; i < shared_ * shape_.value; ++i) out[i] += second[i];
  }

  const VqDecodeAttentionArgs& args_;
  const VqShape& shape_;
  const int64_t shared_;  // heads per key/value head
  int64_t* const rows_;   // those whose units come first, first
  const int64_t units_;
  const int64_t max_keys_;
  const int64_t key_bytes_;
  Unit* const units_memory_;
  char* const key_memory_;
  float* const weights_;
  uint8_t* const kept_memory_;
  float* const thresholds_;
  float* const second_sums_;
  const AddCopyGroupFunction dot_;  // by VPDPBUSD, or null
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
