// VqPrefillAttention computes several blocks at a time. First, for one block after the other, it
// collects the keys from the state as it stands before the block, and appends the block's codes.
// Then it computes the weights of all queries of all blocks. Then a task takes a tile of columns
// through all blocks: for each it computes (weights [B, keys] x rows of values [keys, columns]),
// and appends the block's values before it goes on to the next. A task packs what it reads once and
// keeps it in the L2 cache: rows of U and values of positions. For each block it adds the block's
// values, and packs again the rows of U that retiring positions changed. Products are of float32 or
// of pairs of bfloat16 (products-inl.h); pairs take half the time.
//
// Work per block, head: 2 B (live codes + W + B / 2) V operations; bytes per key/value head and
// blocks taken together: every row of U and of the window once. The largest intermediate is the
// weights, [blocks, H, B, S + W + B].
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vq_attention/prefill.cc"
#include <algorithm>
#include <atomic>

#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vq_attention/keys.h"
#include "kernels/cpu/vq_attention/products-inl.h"
#include "kernels/cpu/vq_attention/read_copy-inl.h"
#include "kernels/cpu/vq_attention/values-inl.h"
#include "kernels/ops/attention/vq_attention.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

static_assert(kPackColumns % kVqScaleColumns == 0);

// The most blocks that are computed together, and the most bytes of their weights unless one block
// has more.
inline constexpr int64_t kSpanBlocks = 8;
inline constexpr int64_t kSpanWeightBytes = 8 << 20;

// One block of queries: positions [position, position + count) are rows [row, row + count) of the
// call.
struct QueryBlock {
  int64_t row;
  int64_t position;
  int64_t count;
};

// Calls task(i, worker) for i in [0, tasks) on `workers` threads; `worker` is the thread's number.
template <typename Task>
void RunOnWorkers(CpuDevice& cpu, int64_t workers, int64_t tasks, int64_t work, const Task& task) {
  std::atomic<int64_t> next{0};
  RunTasks(cpu, workers, work, [&](int64_t worker) {
    for (int64_t i = next++; i < tasks; i = next++) task(i, worker);
  });
}

// Consecutive blocks, from row `row` of the call on, with products as `Products` computes them.
template <typename T, class Products>
class PrefillSpan {
 public:
  using Weight = typename Products::Weight;
  using Rows = typename Products::Rows;

  PrefillSpan(CpuDevice& cpu, const VqPrefillAttentionArgs& args, int64_t row)
      : args_(args),
        shape_(args.shape),
        heads_(args.code_scores.dim(1)),
        shared_(heads_ / shape_.kv_heads),
        row_(row),
        max_recent_(shape_.window + kVqPrefillBlock),
        max_keys_(AttentionKeys::MaxSize(shape_.codes, max_recent_)),
        weight_stride_(max_keys_ + (Products::kRows - 1) * kKeyPad),
        key_bytes_(AttentionKeys::Bytes(shape_.codes, max_recent_)) {
    ListBlocks();
    keys_ = cpu.Scratch<AttentionKeys>(0, blocks_ * shape_.kv_heads);
    key_memory_ = cpu.Scratch<char>(1, blocks_ * shape_.kv_heads * key_bytes_);
    weights_ = cpu.Scratch<Weight>(2, heads_ * tokens_ * weight_stride_);
    retired_ = cpu.Scratch<int32_t>(3, 2 * shape_.kv_heads * tokens_);
    scales_ = cpu.Scratch<float>(5, heads_ * tokens_);
  }

  // How many rows of the call the blocks have.
  int64_t tokens() const { return tokens_; }

  void Attend(CpuDevice& cpu) {
    for (int64_t b = 0; b < blocks_; ++b) {
      for (int64_t g = 0; g < shape_.kv_heads; ++g) CollectKeys(b, g);
    }
    ComputeAllWeights(cpu);
    SumAllValues(cpu);
  }

 private:
  AttentionKeys& Keys(int64_t b, int64_t g) { return keys_[b * shape_.kv_heads + g]; }
  // How many queries the blocks and heads before this one have.
  int64_t FirstQuery(int64_t b, int64_t h) const {
    return (block_[b].row - row_) * heads_ + h * block_[b].count;
  }
  // [block, weight_stride_]
  Weight* Weights(int64_t b, int64_t h) { return weights_ + FirstQuery(b, h) * weight_stride_; }
  // [block]
  float* Scales(int64_t b, int64_t h) { return scales_ + FirstQuery(b, h); }
  // [block]
  int32_t* Retired(int64_t b, int64_t g) { return retired_ + g * tokens_ + block_[b].row - row_; }
  int32_t* RetiredRow(int64_t b, int64_t g) { return Retired(b, g) + shape_.kv_heads * tokens_; }
  int64_t WindowRows(int64_t b) const { return std::min(block_[b].position, shape_.window); }
  // The first position that a block attends to, and how many positions lie before it in the same
  // Rows.
  int64_t Attended(int64_t b) const { return block_[b].position - WindowRows(b); }
  int64_t Lead(int64_t b) const { return Attended(b) % Products::kRows; }

  void ListBlocks() {
    const int64_t bytes =
        heads_ * kVqPrefillBlock * weight_stride_ * static_cast<int64_t>(sizeof(Weight));
    const int64_t most = std::clamp<int64_t>(kSpanWeightBytes / bytes, 1, kSpanBlocks);
    const int64_t rows = args_.code_scores.dim(0);
    while (blocks_ < most && row_ + tokens_ < rows) {
      const int64_t row = row_ + tokens_;
      const int64_t position = args_.position + row;
      const int64_t count = std::min(kVqPrefillBlock - position % kVqPrefillBlock, rows - row);
      block_[blocks_++] = {row, position, count};
      tokens_ += count;
    }
  }

  // Collects the keys of a block: the codes and the window as they stand, then the block's own
  // positions, which have no slot in the window as yet. Appends the block's codes at once;
  // SumValues appends the values.
  void CollectKeys(int64_t b, int64_t g) {
    const QueryBlock& block = block_[b];
    AttentionKeys& keys = Keys(b, g);
    keys = AttentionKeys::Collect(shape_, args_.state, g, block.position - WindowRows(b),
                                  block.position, max_recent_,
                                  key_memory_ + (b * shape_.kv_heads + g) * key_bytes_);
    for (int64_t i = 0; i < block.count; ++i) {
      const int32_t code = args_.codes.row(block.row + i)[g];
      keys.recent_code[keys.recent++] = code;
      const int32_t retired = AppendCode(shape_, args_.state, g, block.position + i, code);
      Retired(b, g)[i] = retired;
      // The code's row among those of the keys. It is used only if the code was live before the
      // block.
      RetiredRow(b, g)[i] = static_cast<int32_t>(
          std::lower_bound(keys.row, keys.row + keys.live, retired) - keys.row);
    }
    std::fill(keys.recent_code + keys.recent, keys.recent_code + PadKeys(keys.recent), 0);
  }

  // A task is a few queries of a block and head; each thread has memory for the scores of one
  // query.
  void ComputeAllWeights(CpuDevice& cpu) {
    constexpr int64_t kQueries = 8;
    constexpr int64_t kGroups = kVqPrefillBlock / kQueries;
    const int64_t tasks = blocks_ * heads_ * kGroups;
    const int64_t workers = std::min<int64_t>(tasks, cpu.pool().threads());
    float* scores = cpu.Scratch<float>(6, workers * max_keys_);
    RunOnWorkers(cpu, workers, tasks, heads_ * tokens_ * weight_stride_ * 16,
                 [&](int64_t task, int64_t worker) {
                   const int64_t query = task % kGroups * kQueries;
                   ComputeWeights(task / kGroups / heads_, task / kGroups % heads_, query,
                                  query + kQueries, scores + worker * max_keys_);
                 });
  }

  void ComputeWeights(int64_t b, int64_t h, int64_t first, int64_t end, float* score) {
    const QueryBlock& block = block_[b];
    for (int64_t i = first; i < std::min(end, block.count); ++i) {
      const QueryScores query{
          .keys = Keys(b, h / shared_),
          .recent = WindowRows(b) + i + 1,
          .window = shape_.window,
          .code_scores = args_.code_scores.row(block.row + i) + h * shape_.codes,
          .position_scores = args_.position_scores.row(block.row + i) + h * shape_.window};
      Products::Weigh(query, Lead(b), score, Weights(b, h) + i * weight_stride_, Scales(b, h) + i);
    }
  }

  // A task is a tile of columns; each thread has memory for one tile.
  void SumAllValues(CpuDevice& cpu) {
    const int64_t tiles = (shape_.value + kPackColumns - 1) / kPackColumns;
    const int64_t tasks = shape_.kv_heads * tiles;
    const int64_t workers = std::min<int64_t>(tasks, cpu.pool().threads());
    const int64_t rows = CodeRows() + RowsOver(Lead(0) + WindowRows(0) + tokens_);
    Rows* memory = cpu.Scratch<Rows>(4, workers * rows);
    RunOnWorkers(cpu, workers, tasks, heads_ * tokens_ * weight_stride_ * shape_.value,
                 [&](int64_t task, int64_t worker) {
                   SumValues(task / tiles, task % tiles * kPackColumns, memory + worker * rows);
                 });
  }

  // How many Rows it takes for so many rows of values.
  static int64_t RowsOver(int64_t rows) { return (rows + Products::kRows - 1) / Products::kRows; }
  int64_t CodeRows() const { return RowsOver(shape_.codes); }

  // Computes columns from `first` on. packed: rows of codes, then rows of positions.
  void SumValues(int64_t g, int64_t first, Rows* packed) {
    const int64_t values = shape_.value;
    const int64_t columns = std::min(kPackColumns, values - first);
    const float* sum = args_.state.sum + g * shape_.codes * values + first;
    const T* window =
        static_cast<const T*>(args_.state.window_value) + g * shape_.window * values + first;
    const int64_t v_stride = shape_.kv_heads * values;

    // Rows of U of the codes that are live, then values of positions from the oldest on.
    Rows* recent = packed + CodeRows();
    const AttentionKeys& begin = Keys(0, g);
    const int64_t origin = Attended(0) - Lead(0);
    if (Lead(0) > 0) std::fill_n(recent[0], kPackColumns, 0);
    Products::template PackAll<T>(
        ValueRows<T>{window, values, begin.row + begin.RecentOffset(), WindowRows(0)}, columns,
        recent, Lead(0));
    int64_t live = 0;
    for (int64_t b = 0; b < blocks_; ++b) {
      const QueryBlock& block = block_[b];
      const AttentionKeys& keys = Keys(b, g);
      if (keys.live != live) {  // codes become live and stay so
        live = keys.live;
        Products::template PackAll<float>(ValueRows<float>{sum, values, keys.row, live}, columns,
                                          packed, 0);
      }
      const float* v = args_.v.row(block.row) + g * values + first;
      Products::template PackAll<T>(ValueRows<float>{v, v_stride, nullptr, block.count}, columns,
                                    recent, block.position - origin);

      const int64_t attended = Attended(b) - Lead(b);
      const QueryRowsOf<Weight> queries{
          .weight = Weights(b, g * shared_),
          .weight_stride = weight_stride_,
          .count = shared_ * block.count,
          .block = block.count,
          .out = args_.out.row(block.row) + g * shared_ * values + first,
          .query_stride = heads_ * values,
          .head_stride = values,
          .own = keys.RecentOffset() + block.position - attended};
      AheadOfAppend ahead(*this, b, g, first, columns);
      const auto multiply = [&](int64_t offset, const Rows* rows, int64_t count, bool accumulate) {
        for (int64_t row = 0; row < count; row += Products::kPassRows) {
          ahead.Turn();
          Products::Multiply(queries, Scales(b, g * shared_), offset + row,
                             std::min(Products::kPassRows, count - row),
                             rows + row / Products::kRows, columns, accumulate || row > 0);
        }
      };
      multiply(0, packed, live, false);
      multiply(keys.RecentOffset(), recent + (attended - origin) / Products::kRows,
               block.position + block.count - attended, live > 0);
      Append(b, g, first, columns);
      if (b + 1 < blocks_) RefreshSums(b, g, sum, columns, packed);
    }
  }

  // Prefetches what Append will read and write, a few positions at a time, while products are
  // computed.
  class AheadOfAppend {
   public:
    AheadOfAppend(PrefillSpan& span, int64_t b, int64_t g, int64_t first, int64_t columns)
        : span_(span), b_(b), g_(g), first_(first), columns_(columns) {}

    void Turn() {
      constexpr int64_t kPositions = Products::kPassRows / 16;
      const QueryBlock& block = span_.block_[b_];
      const int64_t end = std::min(next_ + kPositions, block.count);
      for (; next_ < end; ++next_) {
        const AppendRows<T> rows = RowsOf<T>(span_.shape_, span_.args_.state, g_,
                                             block.position + next_, span_.Retired(b_, g_)[next_]);
        Fetch(rows.slot);
        if (rows.sum == nullptr) continue;
        Fetch(rows.sum);
        Fetch(rows.carry);
      }
    }

   private:
    template <typename Value>
    void Fetch(const Value* row) const {
      constexpr auto kLine = kPackLineBytes / static_cast<int64_t>(sizeof(Value));
      for (int64_t c = 0; c < columns_; c += kLine) __builtin_prefetch(row + first_ + c, 1, 2);
    }

    PrefillSpan& span_;
    const int64_t b_, g_, first_, columns_;
    int64_t next_ = 0;  // position of the block
  };

  void Append(int64_t b, int64_t g, int64_t first, int64_t columns) {
    const QueryBlock& block = block_[b];
    const int32_t* retired = Retired(b, g);
    for (int64_t i = 0; i < block.count; ++i) {
      AppendValues(RowsOf<T>(shape_, args_.state, g, block.position + i, retired[i]),
                   args_.v.row(block.row + i) + g * shape_.value, first, first + columns);
    }
    for (int64_t i = 0; i < block.count; ++i) {
      RefreshCopy<T>(shape_, args_.state, g, block.position + i, retired[i], first,
                     first + columns);
    }
  }

  // Packs again the rows of U of the codes to which positions of the block retired. Does nothing if
  // codes have become live: all rows will be packed anew.
  void RefreshSums(int64_t b, int64_t g, const float* sum, int64_t columns, Rows* packed) {
    if (Keys(b + 1, g).live != Keys(b, g).live) return;
    for (int64_t i = 0; i < block_[b].count; ++i) {
      const int32_t code = Retired(b, g)[i];
      if (code == kNoCode) continue;
      Products::PackAgain(sum + code * shape_.value, columns, packed, RetiredRow(b, g)[i]);
    }
  }

  const VqPrefillAttentionArgs& args_;
  const VqShape& shape_;
  const int64_t heads_;
  const int64_t shared_;  // heads per key/value head
  const int64_t row_;
  const int64_t max_recent_;
  const int64_t max_keys_;
  const int64_t weight_stride_;
  const int64_t key_bytes_;
  QueryBlock block_[kSpanBlocks];
  int64_t blocks_ = 0;
  int64_t tokens_ = 0;
  AttentionKeys* keys_;  // [blocks, G]
  char* key_memory_;     // [blocks, G, key_bytes_]
  Weight* weights_;      // [blocks], each [H, block, weight_stride_]
  float* scales_;        // [blocks], each [H, block]
  int32_t* retired_;     // [2, G, tokens]: codes, and their rows
};

template <typename T, class Products>
void PrefillAll(CpuDevice& cpu, const VqPrefillAttentionArgs& args) {
  for (int64_t row = 0; row < args.code_scores.dim(0);) {
    PrefillSpan<T, Products> span(cpu, args, row);
    span.Attend(cpu);
    row += span.tokens();
  }
}

template <class Products>
void PrefillAll(CpuDevice& cpu, const VqPrefillAttentionArgs& args) {
  if (args.shape.value_dtype == DType::kFloat32) {
    PrefillAll<float, Products>(cpu, args);
  } else {
    PrefillAll<BFloat16, Products>(cpu, args);
  }
}

void VqPrefillAll(CpuDevice& cpu, const VqPrefillAttentionArgs& args) {
#if HWY_TARGET <= HWY_AVX3
  if (args.factors == DType::kBFloat16 && cpu.dot().bf16) {
    return PrefillAll<PairProducts>(cpu, args);
  }
#endif
  PrefillAll<FloatProducts>(cpu, args);
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {

HWY_EXPORT(VqPrefillAll);

absl::Status CpuVqPrefillAttention(Device& device, const VqPrefillAttentionArgs& args) {
  HWY_DYNAMIC_DISPATCH(VqPrefillAll)(AsCpu(device), args);
  return absl::OkStatus();
}

}  // namespace tvq
#endif
