// VqDecodeAttention has two phases. Weights: a task for each session and head, which touches almost
// no memory. Of the heads that share a key/value head, the task that is done last also appends the
// position's values. Values: a task for each session, key/value head, part of the chosen rows and
// tile of columns. It reads each row of the tile once for all heads that share it. Where there are
// many sessions, a task has both phases of one session's key/value head, so that some threads read
// while others compute.
//
// The rows are cut into kParts parts. Each part is summed separately, on any thread, and the sums
// are added at the end. So several threads can share one session, each with rows that lie together;
// tiles of a row's columns would be too short to be read fast.
//
// Rows of the call that have the same state are computed one after the other, since each row
// changes what the next one reads: the first row of every state, then the second of those that have
// one. What a row reads is then in the cache from the row before it.
//
// Bytes per session, layer and key/value head: 4 V per code with n > 0, SizeOf(value_dtype) V per
// recent position, or 17/16 V for either where they are read from the copy; less for rows that are
// left out. This is what a step costs, and rows are prefetched so that memory is never idle, also
// rows that do not follow one another.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vq_attention/decode.cc"
#include <algorithm>
#include <atomic>

#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/pause.h"
#include "kernels/cpu/run_ahead.h"
#include "kernels/cpu/vq_attention/copy_sums-inl.h"
#include "kernels/cpu/vq_attention/keys.h"
#include "kernels/cpu/vq_attention/read_copy-inl.h"
#include "kernels/cpu/vq_attention/row_sums-inl.h"
#include "kernels/cpu/vq_attention/skip-inl.h"
#include "kernels/cpu/vq_attention/undo.h"
#include "kernels/cpu/vq_attention/values-inl.h"
#include "kernels/cpu/vq_attention/weights-inl.h"
#include "kernels/ops/attention/vq_attention.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

template <typename T>
class Decode {
 public:
  Decode(CpuDevice& cpu, const VqDecodeAttentionArgs& args)
      : cpu_(cpu),
        args_(args),
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
        later_sums_(cpu.Scratch<float>(5, units_ * (kParts - 1) * shared_ * shape_.value)),
        copy_kind_(CopyGroupKindFor(cpu.dot())) {
    for (int64_t unit = 0; unit < units_; ++unit) units_memory_[unit].unweighed = 0;
  }

  void Run() {
    for (int64_t first = 0, turn = 0; first < args_.states.size(); ++turn) {
      const int64_t rows = TakeRows(turn, first);
      Attend(first * shape_.kv_heads, rows * shape_.kv_heads);
      first += rows;
    }
  }

 private:
  // A session's key/value head.
  struct Unit {
    AttentionKeys keys;
    ReadRun codes;      // rows of the accumulator
    ReadRun recent;     // rows of the window
    int32_t retired;    // code of the position that left the window, or kNoCode
    int32_t unweighed;  // heads without weights, 0 before the unit has begun
  };

  // A unit's rows are cut into so many parts, which are summed separately.
  static constexpr int64_t kParts = 4;

  // What a task sums: the columns from `column` on of a part of a unit's rows.
  struct Tile {
    int64_t unit, part, column;
  };
  static constexpr Tile kNoTile{-1, 0, 0};

  // Collects the rows of the call with `turn` rows of the same state before them, in rows_ from
  // `first` on. Returns their number.
  int64_t TakeRows(int64_t turn, int64_t first) {
    int64_t count = 0, before = 0;
    for (int64_t n = 0; n < args_.states.size(); ++n) {
      const VqState& state = args_.states.data[n];
      before = n > 0 && !state.none() && state.sum == args_.states.data[n - 1].sum ? before + 1 : 0;
      if (before == turn) rows_[first + count++] = n;
    }
    return count;
  }

  // Computes units whose states are all different.
  void Attend(int64_t first_unit, int64_t units) {
    const int threads = cpu_.pool().threads();
    columns_ = Columns(units, threads);
    tiles_ = (shape_.value + columns_ - 1) / columns_;
    if (units >= kUnitsForWholeTasks * threads) {
      AttendByUnits(first_unit, units);
    } else {
      AttendByTiles(first_unit, units);
    }
  }

  // A task has both phases of a unit.
  void AttendByUnits(int64_t first_unit, int64_t units) {
    RunTasks(cpu_, units, ValuesWork(units), [&](int64_t unit) {
      for (int64_t i = 0; i < shared_; ++i) Weigh(first_unit + unit, i);
      const int64_t end = (unit + 1) * unit_tiles();
      for (int64_t tile = unit * unit_tiles(); tile < end; ++tile) {
        SumValues(TileAt(first_unit, tile),
                  tile + 1 < end ? TileAt(first_unit, tile + 1) : kNoTile);
      }
      AddParts(first_unit + unit);
    });
  }

  // A task has a tile. Weights are computed before; where that is quick, the caller does it while
  // other threads prefetch.
  void AttendByTiles(int64_t first_unit, int64_t units) {
    const auto weigh = [&](int64_t task) { Weigh(first_unit + task / shared_, task % shared_); };
    const int64_t heads = units * shared_, weights_work = heads * max_keys_ * 32;
    const bool alone = weights_work < kSharedWork;
    // Tasks are taken in order, so that none waits for one that no thread has taken.
    if (!alone) RunAhead(cpu_, heads, weights_work, [&](int64_t task, int64_t) { weigh(task); });
    const int64_t tiles = units * unit_tiles();
    RunPrepared(
        cpu_, tiles, ValuesWork(units),
        [&] {
          for (int64_t task = 0; alone && task < heads; ++task) weigh(task);
        },
        [&](int64_t tile) { Fetch(TileAt(first_unit, tile)); },
        [&](int64_t tile, int64_t next, int64_t) {
          SumValues(TileAt(first_unit, tile), next < tiles ? TileAt(first_unit, next) : kNoTile);
        });
    RunTasks(cpu_, units, units * kParts * shared_ * shape_.value,
             [&](int64_t unit) { AddParts(first_unit + unit); });
  }

  int64_t ValuesWork(int64_t units) const { return units * max_keys_ * shape_.value * 4; }
  int64_t unit_tiles() const { return kParts * tiles_; }
  Tile TileAt(int64_t first_unit, int64_t tile) const {
    return {first_unit + tile / unit_tiles(), tile / tiles_ % kParts, tile % tiles_ * columns_};
  }

  // With so many units for each thread, tasks have whole units: no thread waits long for the last
  // ones then.
  static constexpr int64_t kUnitsForWholeTasks = 4;

  bool copied() const { return shape_.read != VqRead::kExact; }

  // Columns of a task; for a copy, those of whole scales.
  int64_t Columns(int64_t units, int threads) const {
    const int64_t most = copied() ? kCopyColumns : shared_ == 1 ? kWholeRowColumns : kDecodeColumns;
    return TaskColumns(kParts * units, shape_.value, threads, most);
  }
  static_assert(kColumnStep % kVqScaleColumns == 0);

  // Bytes for a unit's SkipArgs::kept, with those that are read behind the last bits.
  int64_t KeptBytes() const { return max_keys_ + 8; }

  int64_t RowOf(int64_t unit) const { return rows_[unit / shape_.kv_heads]; }
  const VqState& StateOf(int64_t unit) const { return args_.states.data[RowOf(unit)]; }

  float* Weights(int64_t unit) const { return weights_ + unit * shared_ * max_keys_; }

  // Begins the first phase: appends the position's code to the state, and collects the keys that
  // the position can see.
  void Begin(int64_t unit) {
    Unit& u = units_memory_[unit];
    const int64_t n = RowOf(unit);
    const int64_t g = unit % shape_.kv_heads;
    const VqState& state = StateOf(unit);
    if (state.none()) {
      ReportNothing(n, g);
      return;
    }
    const int64_t position = args_.positions.data[n];
    KeepOverwritten(shape_, state, g, position);
    u.retired = AppendCode(shape_, state, g, position, args_.codes.row(n)[g]);
    u.keys =
        AttentionKeys::Collect(shape_, state, g, std::max<int64_t>(0, position + 1 - shape_.window),
                               position + 1, shape_.window, key_memory_ + unit * key_bytes_);
    PrefetchAppend(Append(unit));
    std::atomic_ref(u.unweighed).store(static_cast<int32_t>(shared_), std::memory_order_release);
  }

  // The softmax of a unit's i-th head over the codes that have positions and the recent positions.
  // The first head begins the unit, and the last one to be done ends it.
  void Weigh(int64_t unit, int64_t i) {
    Unit& u = units_memory_[unit];
    const std::atomic_ref unweighed(u.unweighed);
    if (i == 0) Begin(unit);
    if (StateOf(unit).none()) return;
    WaitUntil([&] { return unweighed.load(std::memory_order_acquire) > 0; });
    const int64_t n = RowOf(unit), h = unit % shape_.kv_heads * shared_ + i;
    SoftmaxWeights(
        {u.keys, u.keys.recent, shape_.window, args_.code_scores.row(n) + h * shape_.codes,
         args_.position_scores.row(n) + h * shape_.window},
        Weights(unit) + i * max_keys_);
    if (unweighed.fetch_sub(1, std::memory_order_acq_rel) == 1) End(unit);
  }

  // Ends the first phase: chooses the rows that are read, and appends the position's values to the
  // state.
  void End(int64_t unit) {
    const int64_t n = RowOf(unit);
    const int64_t g = unit % shape_.kv_heads;
    ChooseRows(unit, n, g);
    AppendValues(Append(unit), args_.v.row(n) + g * shape_.value, 0, shape_.value);
    RefreshCopy<T>(shape_, StateOf(unit), g, args_.positions.data[n], units_memory_[unit].retired,
                   0, shape_.value);
  }

  AppendRows<T> Append(int64_t unit) const {
    return RowsOf<T>(shape_, StateOf(unit), unit % shape_.kv_heads,
                     args_.positions.data[RowOf(unit)], units_memory_[unit].retired);
  }

  void PrefetchAppend(const AppendRows<T>& append) const {
    PrefetchRow(append.slot, shape_.value);
    if (append.sum == nullptr) return;
    PrefetchRow(append.sum, shape_.value);
    PrefetchRow(append.carry, shape_.value);
  }

  // Chooses which rows of the accumulator and of the window are read.
  void ChooseRows(int64_t unit, int64_t n, int64_t g) {
    Unit& u = units_memory_[unit];
    const SharedWeights weights{Weights(unit), max_keys_, shared_};
    // A mean is weighted by the count of its code; a sum contains all its positions already.
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

  // Sums of a part [heads, V]. Those of the first part become the result.
  float* PartSums(int64_t unit, int64_t part) const {
    const int64_t size = shared_ * shape_.value;
    if (part > 0) return later_sums_ + (unit * (kParts - 1) + part - 1) * size;
    return args_.out.row(RowOf(unit)) + unit % shape_.kv_heads * size;
  }

  // The first row of a part, counted over both runs together. All parts have the same number of
  // bytes, but for rounding to whole groups.
  int64_t PartBegin(int64_t codes, int64_t recent, int64_t part) const {
    if (part == kParts) return codes + recent;
    const int64_t group = copied() ? kCopyGroup : kRowGroup;
    const int64_t code_bytes = copied() ? 1 : sizeof(float);
    const int64_t recent_bytes = copied() ? 1 : sizeof(T);
    const int64_t all = codes * code_bytes;
    const int64_t bytes = (all + recent * recent_bytes) * part / kParts;
    const int64_t row = bytes < all ? bytes / code_bytes : codes + (bytes - all) / recent_bytes;
    return std::min(codes + recent, (row + group / 2) / group * group);
  }

  // The rows of a run that belong to a part; `before`: how many rows the runs before it have.
  ReadRun PartOf(const Unit& u, const ReadRun& run, int64_t before, int64_t part) const {
    const auto begin_of = [&](int64_t p) {
      const int64_t row = PartBegin(u.codes.count, u.recent.count, p);
      return std::clamp<int64_t>(row - before, 0, run.count);
    };
    const int64_t from = begin_of(part), to = begin_of(part + 1);
    return {run.row + from, run.offset + from, to - from};
  }

  // Prefetches the first bytes that a task reads if no row is left out; it is not known yet which
  // rows are.
  void Fetch(const Tile& tile) const {
    const VqState& state = StateOf(tile.unit);
    if (state.none() || args_.skip_mass > 0 || columns_ < shape_.value) return;
    const int64_t g = tile.unit % shape_.kv_heads;
    const int64_t row = PartBegin(shape_.codes, shape_.window, tile.part);
    const auto fetch = [&](const auto* codes, const auto* recent) {
      if (row < shape_.codes) {
        FetchBytes(codes + (g * shape_.codes + row) * shape_.value,
                   (shape_.codes - row) * shape_.value * static_cast<int64_t>(sizeof(*codes)));
      } else {
        const int64_t age = args_.positions.data[RowOf(tile.unit)] + 1 + row - shape_.codes;
        const int64_t slot = age % shape_.window;
        FetchBytes(recent + (g * shape_.window + slot) * shape_.value,
                   (shape_.window - slot) * shape_.value * static_cast<int64_t>(sizeof(*recent)));
      }
    };
    if (copied()) {
      fetch(state.mean, state.recent);
    } else {
      fetch(state.sum, static_cast<const T*>(state.window_value));
    }
  }

  // The second phase: the weighted sum of a tile's rows.
  void SumValues(const Tile& tile, const Tile& next) {
    const int64_t columns = std::min(columns_, shape_.value - tile.column);
    float* sums = PartSums(tile.unit, tile.part) + tile.column;
    for (int64_t h = 0; h < shared_; ++h) std::fill_n(sums + h * shape_.value, columns, 0.0F);
    if (StateOf(tile.unit).none()) return;
    if (copied()) {
      SumCopies(tile);
    } else {
      SumExact(tile, next);
    }
  }

  // Rows of the accumulator, then of the window.
  struct ExactRows {
    RowSums<float> codes;
    RowSums<T> recent;
  };
  ExactRows RowsOfTile(const Tile& tile) const {
    const VqState& state = StateOf(tile.unit);
    const Unit& u = units_memory_[tile.unit];
    const int64_t g = tile.unit % shape_.kv_heads;
    const int64_t columns = std::min(columns_, shape_.value - tile.column);
    const float* sum = state.sum + g * shape_.codes * shape_.value + tile.column;
    const T* value =
        static_cast<const T*>(state.window_value) + g * shape_.window * shape_.value + tile.column;
    float* out = PartSums(tile.unit, tile.part) + tile.column;
    const ReadRun recent = PartOf(u, u.recent, u.codes.count, tile.part);
    return {Sums<float>(tile.unit, PartOf(u, u.codes, 0, tile.part), sum, columns, out),
            Sums<T>(tile.unit, recent, value, columns, out)};
  }

  static void PrefetchFirst(const ExactRows& rows) {
    rows.codes.count > 0 ? PrefetchFirstRows(rows.codes) : PrefetchFirstRows(rows.recent);
  }

  void SumExact(const Tile& tile, const Tile& next) {
    const ExactRows rows = RowsOfTile(tile);
    PrefetchFirst(rows);
    AddAllRows(rows.codes, [&] {
      if (rows.codes.count > 0) PrefetchFirstRows(rows.recent);
    });
    AddAllRows(rows.recent, [&] {
      if (next.unit >= 0 && !StateOf(next.unit).none()) PrefetchFirst(RowsOfTile(next));
    });
  }

  void SumCopies(const Tile& tile) {
    const VqState& state = StateOf(tile.unit);
    const Unit& u = units_memory_[tile.unit];
    const int64_t g = tile.unit % shape_.kv_heads;
    const int64_t columns = std::min(columns_, shape_.value - tile.column);
    float* out = PartSums(tile.unit, tile.part) + tile.column;
    const auto copies = [&](const ReadRun& run, int64_t row, const int8_t* rows,
                            const float* scales) {
      rows += row * shape_.value + tile.column;
      return CopySums{.rows = Sums(tile.unit, run, rows, columns, out),
                      .scales = scales + row * shape_.scales() + tile.column / kVqScaleColumns,
                      .scale_stride = shape_.scales()};
    };
    const CopySums codes =
        copies(PartOf(u, u.codes, 0, tile.part), g * shape_.codes, state.mean, state.mean_scale);
    const CopySums recent = copies(PartOf(u, u.recent, u.codes.count, tile.part), g * shape_.window,
                                   state.recent, state.recent_scale);
    CopyAdder adder(copy_kind_);
    adder.Fetch(codes.rows.count > 0 ? codes : recent);
    adder.Add(codes, &recent);
    adder.Add(recent, nullptr);
  }

  // Adds the parts to the result.
  void AddParts(int64_t unit) {
    if (StateOf(unit).none()) return;
    float* HWY_RESTRICT out = PartSums(unit, 0);
    for (int64_t part = 1; part < kParts; ++part) {
      const float* HWY_RESTRICT sums = PartSums(unit, part);
      for (int64_t i = 0; i < shared_ * shape_.value; ++i) out[i] += sums[i];
    }
  }

  CpuDevice& cpu_;
  const VqDecodeAttentionArgs& args_;
  const VqShape& shape_;
  const int64_t shared_;  // heads per key/value head
  int64_t* const rows_;   // in the order in which their units are computed
  const int64_t units_;
  const int64_t max_keys_;
  const int64_t key_bytes_;
  Unit* const units_memory_;
  char* const key_memory_;
  float* const weights_;
  uint8_t* const kept_memory_;
  float* const thresholds_;
  float* const later_sums_;  // [units, kParts - 1, heads, V]
  int64_t columns_ = 0;      // of a tile
  int64_t tiles_ = 0;        // of a part
  const CopyGroupKind& copy_kind_;
};

void VqDecodeAll(CpuDevice& cpu, const VqDecodeAttentionArgs& args) {
  if (args.shape.value_dtype == DType::kFloat32) {
    Decode<float>(cpu, args).Run();
  } else {
    Decode<BFloat16>(cpu, args).Run();
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
