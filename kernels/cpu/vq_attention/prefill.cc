// VqPrefillAttention, several blocks at a time: for one block after the other, keys are collected
// from the state as it stands before it and its codes appended; weights of all queries of all
// blocks are computed; then a task takes a tile of columns through all blocks, (weights [B, keys] x
// rows of values [keys, columns]), and appends the values of each before it goes on to the next.
// What a task reads it packs once, and keeps it in the second-level cache: rows of U, which change
// with what retires, and values of positions, to which those of a block are added.
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
#include "kernels/cpu/packed_product-inl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vq_attention/keys.h"
#include "kernels/cpu/vq_attention/read_copy-inl.h"
#include "kernels/cpu/vq_attention/values-inl.h"
#include "kernels/cpu/vq_attention/weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

static_assert(kPackColumns % kVqScaleColumns == 0);

// Blocks that are taken through together, and bytes of their weights unless one block has more.
inline constexpr int64_t kSpanBlocks = 8;
inline constexpr int64_t kSpanWeightBytes = 8 << 20;

// One block of queries: positions [position, position + count) are rows [row, row + count) of the
// call.
struct QueryBlock {
  int64_t row;
  int64_t position;
  int64_t count;
};

// Consecutive blocks, from row `row` of the call on.
template <typename T>
class PrefillSpan {
 public:
  PrefillSpan(CpuDevice& cpu, const VqPrefillAttentionArgs& args, int64_t row)
      : args_(args),
        shape_(args.shape),
        heads_(args.code_scores.dim(1)),
        shared_(heads_ / shape_.kv_heads),
        row_(row),
        max_recent_(shape_.window + kVqPrefillBlock),
        weight_stride_(AttentionKeys::MaxSize(shape_.codes, max_recent_)),
        key_bytes_(AttentionKeys::Bytes(shape_.codes, max_recent_)) {
    ListBlocks();
    keys_ = cpu.Scratch<AttentionKeys>(0, blocks_ * shape_.kv_heads);
    key_memory_ = cpu.Scratch<char>(1, blocks_ * shape_.kv_heads * key_bytes_);
    weights_ = cpu.Scratch<float>(2, heads_ * tokens_ * weight_stride_);
    retired_ = cpu.Scratch<int32_t>(3, shape_.kv_heads * tokens_);
  }

  // Rows of the call.
  int64_t tokens() const { return tokens_; }

  void Attend(CpuDevice& cpu) {
    for (int64_t b = 0; b < blocks_; ++b) {
      for (int64_t g = 0; g < shape_.kv_heads; ++g) CollectKeys(b, g);
    }
    constexpr int64_t kQueries = 8;  // of a task
    const int64_t groups = kVqPrefillBlock / kQueries;
    RunTasks(
        cpu, blocks_ * heads_ * groups, heads_ * tokens_ * weight_stride_ * 16, [&](int64_t task) {
          const int64_t query = task % groups * kQueries;
          ComputeWeights(task / groups / heads_, task / groups % heads_, query, query + kQueries);
        });
    SumAllValues(cpu);
  }

 private:
  AttentionKeys& Keys(int64_t b, int64_t g) { return keys_[b * shape_.kv_heads + g]; }
  // [block, weight_stride_]
  float* Weights(int64_t b, int64_t h) {
    const QueryBlock& block = block_[b];
    return weights_ + ((block.row - row_) * heads_ + h * block.count) * weight_stride_;
  }
  // [block]
  int32_t* Retired(int64_t b, int64_t g) { return retired_ + g * tokens_ + block_[b].row - row_; }
  int64_t WindowRows(int64_t b) const { return std::min(block_[b].position, shape_.window); }

  void ListBlocks() {
    const int64_t bytes = heads_ * kVqPrefillBlock * weight_stride_ * 4;
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

  // Keys: the codes and the window as they stand, then the block's own positions, which have no
  // slot in the window as yet. The codes are appended at once, the values by SumValues.
  void CollectKeys(int64_t b, int64_t g) {
    const QueryBlock& block = block_[b];
    AttentionKeys& keys = Keys(b, g);
    keys = AttentionKeys::Collect(shape_, args_.state, g, block.position - WindowRows(b),
                                  block.position, max_recent_,
                                  key_memory_ + (b * shape_.kv_heads + g) * key_bytes_);
    for (int64_t i = 0; i < block.count; ++i) {
      const int32_t code = args_.codes.row(block.row + i)[g];
      keys.recent_code[keys.recent++] = code;
      Retired(b, g)[i] = AppendCode(shape_, args_.state, g, block.position + i, code);
    }
    std::fill(keys.recent_code + keys.recent, keys.recent_code + PadKeys(keys.recent), 0);
  }

  void ComputeWeights(int64_t b, int64_t h, int64_t first, int64_t end) {
    const QueryBlock& block = block_[b];
    for (int64_t i = first; i < std::min(end, block.count); ++i) {
      SoftmaxWeights(Keys(b, h / shared_), WindowRows(b) + i + 1, shape_.window,
                     args_.code_scores.row(block.row + i) + h * shape_.codes,
                     args_.position_scores.row(block.row + i) + h * shape_.window,
                     Weights(b, h) + i * weight_stride_);
    }
  }

  // A task is a tile of columns; threads have memory for one each.
  void SumAllValues(CpuDevice& cpu) {
    const int64_t tiles = (shape_.value + kPackColumns - 1) / kPackColumns;
    const int64_t tasks = shape_.kv_heads * tiles;
    const int64_t workers = std::min<int64_t>(tasks, cpu.pool().threads());
    const int64_t rows = shape_.codes + shape_.window + tokens_;
    float* memory = cpu.Scratch<float>(4, workers * rows * kPackColumns);
    std::atomic<int64_t> next{0};
    RunTasks(cpu, workers, heads_ * tokens_ * weight_stride_ * shape_.value, [&](int64_t worker) {
      float* packed = memory + worker * rows * kPackColumns;
      for (int64_t task = next++; task < tasks; task = next++) {
        SumValues(task / tiles, task % tiles * kPackColumns, packed);
      }
    });
  }

  // Columns from `first` on. packed: [S + W + tokens][kPackColumns].
  void SumValues(int64_t g, int64_t first, float* packed) {
    const int64_t values = shape_.value;
    const int64_t columns = std::min(kPackColumns, values - first);
    const float* sum = args_.state.sum + g * shape_.codes * values + first;
    const T* window =
        static_cast<const T*>(args_.state.window_value) + g * shape_.window * values + first;
    const int64_t v_stride = shape_.kv_heads * values;

    // Rows of U of the codes that are live, then values of positions from the oldest on.
    float* recent = packed + shape_.codes * kPackColumns;
    const AttentionKeys& begin = Keys(0, g);
    Pack<T>(ValueRows<T>{window, values, begin.row + begin.RecentOffset(), WindowRows(0)}, 0,
            WindowRows(0), columns, recent);
    const int64_t oldest = block_[0].position - WindowRows(0);
    int64_t live = 0;
    for (int64_t b = 0; b < blocks_; ++b) {
      const QueryBlock& block = block_[b];
      const AttentionKeys& keys = Keys(b, g);
      if (keys.live != live) {  // codes come and never go
        live = keys.live;
        Pack<float>(ValueRows<float>{sum, values, keys.row, live}, 0, live, columns, packed);
      }
      const float* v = args_.v.row(block.row) + g * values + first;
      Pack<T>(ValueRows<float>{v, v_stride, nullptr, block.count}, 0, block.count, columns,
              recent + (block.position - oldest) * kPackColumns);

      const int64_t attended = block.position - WindowRows(b);
      const QueryRows queries{.weight = Weights(b, g * shared_),
                              .weight_stride = weight_stride_,
                              .count = shared_ * block.count,
                              .block = block.count,
                              .out = args_.out.row(block.row) + g * shared_ * values + first,
                              .query_stride = heads_ * values,
                              .head_stride = values,
                              .own = keys.RecentOffset() + WindowRows(b)};
      AheadOfAppend ahead(*this, b, g, first, columns);
      Multiply(queries, 0, packed, live, columns, false, ahead);
      Multiply(queries, keys.RecentOffset(), recent + (attended - oldest) * kPackColumns,
               WindowRows(b) + block.count, columns, live > 0, ahead);
      Append(b, g, first, columns);
      if (b + 1 < blocks_) RefreshSums(b, g, sum, columns, packed);
    }
  }

  // Asks for what Append will read and write, a few positions at a time, while products run.
  class AheadOfAppend {
   public:
    AheadOfAppend(PrefillSpan& span, int64_t b, int64_t g, int64_t first, int64_t columns)
        : span_(span), b_(b), g_(g), first_(first), columns_(columns) {}

    void Turn() {
      constexpr int64_t kPositions = 8;
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

  // out (+)= weights from `offset` on x rows [count][kPackColumns].
  void Multiply(const QueryRows& queries, int64_t offset, const float* rows, int64_t count,
                int64_t columns, bool accumulate, AheadOfAppend& ahead) {
    for (int64_t first = 0; first < count; first += kPackRows) {
      ahead.Turn();
      MultiplyPacked(queries, offset + first, std::min(kPackRows, count - first),
                     rows + first * kPackColumns, columns, accumulate || first > 0);
    }
  }

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

  // Packs again what retired to codes that were live before the block; where others came, all is
  // packed anew.
  void RefreshSums(int64_t b, int64_t g, const float* sum, int64_t columns, float* packed) {
    const AttentionKeys& keys = Keys(b, g);
    if (Keys(b + 1, g).live != keys.live) return;
    for (int64_t i = 0; i < block_[b].count; ++i) {
      const int32_t code = Retired(b, g)[i];
      if (code == kNoCode) continue;
      const int64_t row = std::lower_bound(keys.row, keys.row + keys.live, code) - keys.row;
      std::copy_n(sum + code * shape_.value, columns, packed + row * kPackColumns);
    }
  }

  const VqPrefillAttentionArgs& args_;
  const VqShape& shape_;
  const int64_t heads_;
  const int64_t shared_;  // heads per key/value head
  const int64_t row_;
  const int64_t max_recent_;
  const int64_t weight_stride_;
  const int64_t key_bytes_;
  QueryBlock block_[kSpanBlocks];
  int64_t blocks_ = 0;
  int64_t tokens_ = 0;
  AttentionKeys* keys_;  // [blocks, G]
  char* key_memory_;     // [blocks, G, key_bytes_]
  float* weights_;       // [blocks], each [H, block, weight_stride_]
  int32_t* retired_;     // [G, tokens]
};

template <typename T>
void PrefillAll(CpuDevice& cpu, const VqPrefillAttentionArgs& args) {
  for (int64_t row = 0; row < args.code_scores.dim(0);) {
    PrefillSpan<T> span(cpu, args, row);
    span.Attend(cpu);
    row += span.tokens();
  }
}

void VqPrefillAll(CpuDevice& cpu, const VqPrefillAttentionArgs& args) {
  if (args.shape.value_dtype == DType::kFloat32) {
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

HWY_EXPORT(VqPrefillAll);

absl::Status CpuVqPrefillAttention(Device& device, const VqPrefillAttentionArgs& args) {
  HWY_DYNAMIC_DISPATCH(VqPrefillAll)(AsCpu(device), args);
  return absl::OkStatus();
}

}  // namespace tvq
#endif
