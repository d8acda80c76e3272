// VqPrefillAttention, block after block: keys are collected from the state as it stands before the
// block, weights of all queries are computed, then every tile of columns is multiplied
// (weights [B, keys] x rows of values [keys, columns]) and takes in the block's own values, which
// no other tile needs.
//
// Work per block, head: 2 B (live codes + W + B) V operations; bytes per key/value head: every row
// of U and of the window once. The largest intermediate is the weights, [H, B, S + W + B].
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vq_attention/prefill.cc"
#include <algorithm>

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

// One block of queries: positions [first, first + block) are rows [row, row + block) of the call.
template <typename T>
class PrefillBlock {
 public:
  PrefillBlock(CpuDevice& cpu, const VqPrefillAttentionArgs& args, int64_t row, int64_t block)
      : args_(args),
        shape_(args.shape),
        heads_(args.code_scores.dim(1)),
        shared_(heads_ / shape_.kv_heads),
        row_(row),
        position_(args.position + row),
        block_(block),
        max_recent_(shape_.window + kVqPrefillBlock),
        weight_stride_(AttentionKeys::MaxSize(shape_.codes, max_recent_)),
        keys_(cpu.Scratch<AttentionKeys>(0, shape_.kv_heads)),
        key_memory_(cpu.Scratch<char>(
            1, shape_.kv_heads * AttentionKeys::Bytes(shape_.codes, max_recent_))),
        weights_(cpu.Scratch<float>(2, heads_ * block * weight_stride_)),
        retired_(cpu.Scratch<int32_t>(3, shape_.kv_heads * block)) {
    for (int64_t g = 0; g < shape_.kv_heads; ++g) CollectKeys(g);
    constexpr int64_t kQueries = 8;  // of a task
    const int64_t groups = (block + kQueries - 1) / kQueries;
    RunTasks(cpu, heads_ * groups, heads_ * block * weight_stride_ * 16, [&](int64_t task) {
      const int64_t query = task % groups * kQueries;
      ComputeWeights(task / groups, query, std::min(query + kQueries, block_));
    });
    const int64_t tiles = (shape_.value + kPackColumns - 1) / kPackColumns;
    RunTasks(cpu, shape_.kv_heads * tiles, heads_ * block * weight_stride_ * shape_.value,
             [&](int64_t task) { SumValues(task / tiles, task % tiles * kPackColumns); });
  }

 private:
  float* Weights(int64_t h) { return weights_ + h * block_ * weight_stride_; }
  int64_t WindowRows() const { return std::min(position_, shape_.window); }

  // Keys: the codes and the window as they stand, then the block's own positions, which have no
  // slot in the window as yet. The codes are appended at once, the values by SumValues.
  void CollectKeys(int64_t g) {
    AttentionKeys& keys = keys_[g];
    keys = AttentionKeys::Collect(
        shape_, args_.state, g, position_ - WindowRows(), position_, max_recent_,
        key_memory_ + g * AttentionKeys::Bytes(shape_.codes, max_recent_));
    for (int64_t i = 0; i < block_; ++i) {
      const int32_t code = args_.codes.row(row_ + i)[g];
      keys.recent_code[keys.recent++] = code;
      retired_[g * block_ + i] = AppendCode(shape_, args_.state, g, position_ + i, code);
    }
    std::fill(keys.recent_code + keys.recent, keys.recent_code + PadKeys(keys.recent), 0);
  }

  void ComputeWeights(int64_t h, int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) {
      SoftmaxWeights(keys_[h / shared_], WindowRows() + i + 1, shape_.window,
                     args_.code_scores.row(row_ + i) + h * shape_.codes,
                     args_.position_scores.row(row_ + i) + h * shape_.window,
                     Weights(h) + i * weight_stride_);
    }
  }

  void SumValues(int64_t g, int64_t first) {
    const AttentionKeys& keys = keys_[g];
    const int64_t values = shape_.value;
    const int64_t columns = std::min(kPackColumns, values - first);
    const QueryRows queries{Weights(g * shared_),
                            weight_stride_,
                            shared_ * block_,
                            block_,
                            args_.out.row(row_) + g * shared_ * values + first,
                            heads_ * values,
                            values};
    const float* sum = args_.state.sum + g * shape_.codes * values + first;
    bool started =
        MultiplyRun<float, float>(queries, 0, {sum, values, keys.row, keys.live}, columns, false);

    const T* window =
        static_cast<const T*>(args_.state.window_value) + g * shape_.window * values + first;
    const int64_t recent = keys.RecentOffset();
    started |= MultiplyRun<T, T>(queries, recent, {window, values, keys.row + recent, WindowRows()},
                                 columns, started);

    const float* v = args_.v.row(row_) + g * values + first;
    MultiplyRun<T, float>(queries, recent + WindowRows(),
                          {v, shape_.kv_heads * values, nullptr, block_}, columns, started);
    for (int64_t i = 0; i < block_; ++i) {
      AppendValues(RowsOf<T>(shape_, args_.state, g, position_ + i, retired_[g * block_ + i]),
                   args_.v.row(row_ + i) + g * values, first, first + columns);
    }
    for (int64_t i = 0; i < block_; ++i) {
      RefreshCopy<T>(shape_, args_.state, g, position_ + i, retired_[g * block_ + i], first,
                     first + columns);
    }
  }

  const VqPrefillAttentionArgs& args_;
  const VqShape& shape_;
  const int64_t heads_;
  const int64_t shared_;    // heads per key/value head
  const int64_t row_;       // of the call
  const int64_t position_;  // of the block's first query
  const int64_t block_;
  const int64_t max_recent_;
  const int64_t weight_stride_;
  AttentionKeys* const keys_;
  char* const key_memory_;
  float* const weights_;
  int32_t* const retired_;  // [G, block]
};

template <typename T>
void PrefillAll(CpuDevice& cpu, const VqPrefillAttentionArgs& args) {
  const int64_t tokens = args.code_scores.dim(0);
  for (int64_t row = 0; row < tokens;) {
    const int64_t position = args.position + row;
    const int64_t block = std::min(kVqPrefillBlock - position % kVqPrefillBlock, tokens - row);
    PrefillBlock<T>(cpu, args, row, block);
    row += block;
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
