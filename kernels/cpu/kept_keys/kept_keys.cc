// First the keys of all rows are written to their pages, so that rows of one session find each
// other's keys. Then a task for each row and key/value head scores the keys in reach, 64 slots of a
// page at a time, as products of queries [q, -q_far] and the panels of keys
// (softmax_attention/scores-inl.h).
//
// A step beyond the context that a model was trained with reads 2 W K elements of keys per session
// and key/value head, once for six query heads that share it. A step within that context reads
// none.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/kept_keys/kept_keys.cc"
#include "kernels/ops/attention/kept_keys.h"

#include <algorithm>

#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/softmax_attention/pages.h"
#include "kernels/cpu/softmax_attention/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

// So many slots are scored at a time.
inline constexpr int64_t kSlots = 64;
static_assert(kSlots % kTileColumns == 0 && kKeyValuePage % kSlots == 0);

template <typename T>
class KeptKeysOf {
 public:
  KeptKeysOf(CpuDevice& cpu, const KeptKeysArgs& args)
      : cpu_(cpu),
        args_(args),
        shape_(args.shape),
        heads_(args.q.dim(1)),
        key_(args.q.dim(2)),
        shared_(heads_ / shape_.kv_heads),
        queries_(cpu.Scratch<float>(0, args.page_q.size())) {}

  void Run() {
    const int64_t rows = args_.positions.size();
    RunTasks(cpu_, rows, 8 * args_.page_q.size() + 8 * args_.page_k.size(), [&](int64_t n) {
      if (!Pages(n).none()) PutTogether(n);
    });
    const int64_t work = 2 * args_.position_scores.size() * shape_.key;
    RunTasks(cpu_, rows * shape_.kv_heads, work, [&](int64_t task) {
      const int64_t n = task / shape_.kv_heads;
      if (!Pages(n).none()) ScoreRecent(n, task % shape_.kv_heads);
    });
  }

 private:
  const KeyValuePages& Pages(int64_t n) const {
    return args_.sessions.empty() ? args_.pages : args_.sessions.data[n];
  }
  LayerPages<T> Layer(int64_t n) const { return {shape_, args_.layer_offset, Pages(n)}; }
  bool Far(int64_t n) const { return args_.positions.data[n] >= args_.longest_trained; }
  float* Query(int64_t n, int64_t h) const { return queries_ + (n * heads_ + h) * shape_.key; }

  // Makes the row's page_k, which it writes to the page, and its page_q.
  void PutTogether(int64_t n) const {
    const int64_t position = args_.positions.data[n];
    for (int64_t g = 0; g < shape_.kv_heads; ++g) {
      float* const page_k = args_.page_k.row(n) + g * shape_.key;
      std::copy_n(args_.k.row(n) + g * key_, key_, page_k);
      std::copy_n(args_.k_plain.row(n) + g * key_, key_, page_k + key_);
      WriteKey(Layer(n), g, position, page_k);
    }
    for (int64_t h = 0; h < heads_; ++h) {
      const float* const q = args_.q.row(n) + h * key_;
      const float* const q_far = args_.q_far.row(n) + h * key_;
      float* const page_q = args_.page_q.row(n) + h * shape_.key;
      std::fill_n(page_q, shape_.key, 0.0F);
      if (!Far(n)) {
        std::copy_n(q, key_, page_q);
        continue;
      }
      std::copy_n(q_far, key_, page_q + key_);
      std::copy_n(q, key_, Query(n, h));
      std::transform(q_far, q_far + key_, Query(n, h) + key_, std::negate());
    }
  }

  // Computes by how much recent positions score more than they would as far ones.
  void ScoreRecent(int64_t n, int64_t g) const {
    const int64_t window = args_.position_scores.dim(2), position = args_.positions.data[n];
    float* const out = args_.position_scores.row(n) + g * shared_ * window;
    if (!Far(n)) {
      std::fill_n(out, shared_ * window, 0.0F);
      return;
    }
    const int64_t oldest = std::max<int64_t>(0, position - window + 1);
    for (int64_t slots = oldest / kSlots * kSlots; slots <= position; slots += kSlots) {
      const T* const panels =
          Layer(n).Keys(slots / kKeyValuePage, g) + shape_.KeyIndex(0, slots % kKeyValuePage, 0);
      for (int64_t i = 0; i < shared_; i += kTileRows) {
        const int64_t heads = std::min(kTileRows, shared_ - i);
        HWY_ALIGN float scores[kTileRows * kSlots];
        TileArgsOf<T> tile{};
        for (int64_t r = 0; r < heads; ++r) {
          tile.a[r] = Query(n, g * shared_ + i + r);
          tile.c[r] = scores + r * kSlots;
        }
        const int64_t end = std::min(slots + kSlots, position + 1);
        ScoreKeys(panels, shape_.key, end - slots, heads, tile);
        for (int64_t r = 0; r < heads; ++r) {
          for (int64_t at = std::max(slots, oldest); at < end; ++at) {
            out[(i + r) * window + position - at] = scores[r * kSlots + at - slots];
          }
        }
      }
    }
  }

  CpuDevice& cpu_;
  const KeptKeysArgs& args_;
  const KeyValueShape& shape_;
  const int64_t heads_;
  const int64_t key_;     // K
  const int64_t shared_;  // heads per key/value head
  float* const queries_;  // [N, H, 2 K], of far rows
};

void KeptKeysAll(CpuDevice& cpu, const KeptKeysArgs& args) {
  if (args.shape.dtype == DType::kFloat32) {
    KeptKeysOf<float>(cpu, args).Run();
  } else {
    KeptKeysOf<BFloat16>(cpu, args).Run();
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {

HWY_EXPORT(KeptKeysAll);

absl::Status CpuKeptKeys(Device& device, const KeptKeysArgs& args) {
  HWY_DYNAMIC_DISPATCH(KeptKeysAll)(AsCpu(device), args);
  return absl::OkStatus();
}

}  // namespace tvq
#endif
