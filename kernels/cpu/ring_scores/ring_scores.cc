// Scores of a ring, whose keys lie in panels: products of a few queries with 64 keys at a time
// (softmax_attention/scores-inl.h). Decode takes slots in the order in which they lie, and each
// task has a part of them. Prefill takes absolute positions, 64 at a time, those before the call
// from the ring, and each task has a block of rows. Then scores are turned round, from the order of
// slots to that of distances, and what their codes score is subtracted.
//
// Bytes of a decode step, per session and key/value head: W K elements of the ring, once for all
// query heads that share it.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/ring_scores/ring_scores.cc"
#include "kernels/ops/attention/ring_scores.h"

#include <algorithm>

#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/softmax_attention/scores-inl.h"
#include "kernels/cpu/vq_attention/undo.h"
#include "kernels/numbers/bfloat16.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

static_assert(kRingStep % kTileColumns == 0);

// Slots of a decode task, and rows of a prefill task. Neither number changes any bits.
inline constexpr int64_t kPartSlots = 1024;
inline constexpr int64_t kBlockRows = 32;

// out[-k] = scores[k] - code_scores[code[k]] for k in [0, count).
HWY_INLINE void TurnRound(const float* HWY_RESTRICT scores, const int32_t* HWY_RESTRICT code,
                          const float* HWY_RESTRICT code_scores, int64_t count,
                          float* HWY_RESTRICT out) {
  const TileTag d;
  const hn::Rebind<int32_t, TileTag> di;
  int64_t k = 0;
  for (; k + kTileLanes <= count; k += kTileLanes) {
    const auto far = hn::GatherIndex(d, code_scores, hn::LoadU(di, code + k));
    const auto near = hn::Sub(hn::LoadU(d, scores + k), far);
    hn::StoreU(hn::Reverse(d, near), d, out - k - (kTileLanes - 1));
  }
  for (; k < count; ++k) out[-k] = scores[k] - code_scores[code[k]];
}

// What both ops do with the rows of a call.
struct Rows {
  const VqShape& shape;
  const RingRows& rows;

  int64_t heads() const { return rows.q.dim(1); }
  int64_t shared() const { return heads() / shape.kv_heads; }
  const float* Query(int64_t n, int64_t h) const { return rows.q.row(n) + h * shape.key; }
  const float* CodeScores(int64_t n, int64_t h) const {
    return rows.code_scores.row(n) + h * shape.codes;
  }
  float* Out(int64_t n, int64_t h) const { return rows.position_scores.row(n) + h * shape.window; }

  // Completes the scores of codes in row n, which is at `position`, for the heads that share
  // key/value head g: bias and sink. Position 0 sets the sink's key and its own code.
  void ScoreCodes(const VqState& state, int64_t n, int64_t g, int64_t position) const {
    float* sink_key = state.sink_key + g * shape.key;
    if (position == 0) {
      std::copy_n(rows.k_plain.row(n) + g * shape.key, shape.key, sink_key);
      rows.codes.row(n)[g] = static_cast<int32_t>(shape.codes - 1);
    }
    for (int64_t h = g * shared(); h < (g + 1) * shared(); ++h) {
      float* HWY_RESTRICT scores = rows.code_scores.row(n) + h * shape.codes;
      const float bias = rows.bias.data[h];
      for (int64_t s = 0; s + 1 < shape.codes; ++s) scores[s] += bias;
      const float* q = rows.q_sink.row(n) + h * shape.key;
      float sink = 0;
      for (int64_t i = 0; i < shape.key; ++i) sink += q[i] * sink_key[i];
      scores[shape.codes - 1] = sink;
    }
  }

  int64_t ScoreCodesWork() const { return rows.code_scores.size() + rows.q_sink.size(); }

  template <typename T>
  void StoreKey(int64_t n, int64_t g, T* number) const {
    const float* k = rows.k.row(n) + g * shape.key;
    for (int64_t i = 0; i < shape.key; ++i) StoreAs(k[i], number + i * kKeyPanel);
  }

  // scores[r][s] = query r . key s, for `count` queries and `slots` keys in panels.
  template <typename T>
  void ScoreSlots(const T* panels, int64_t slots, int64_t count, const float* const* queries,
                  float* scores, int64_t stride, const T* then) const {
    TileArgsOf<T> tile{};
    for (int64_t r = 0; r < count; ++r) {
      tile.a[r] = queries[r];
      tile.c[r] = scores + r * stride;
    }
    ScoreKeys(panels, shape.key, slots, count, tile, then);
  }
};

template <typename T>
class DecodeRing {
 public:
  DecodeRing(CpuDevice& cpu, const RingDecodeScoresArgs& args)
      : cpu_(cpu),
        args_(args),
        shape_(args.shape),
        rows_{args.shape, args.rows},
        first_(cpu.Scratch<int64_t>(0, args.states.size() + 1)) {}

  void Run() {
    ListRuns();
    RunTasks(cpu_, runs_ * shape_.kv_heads, rows_.ScoreCodesWork(), [&](int64_t task) {
      const int64_t run = task / shape_.kv_heads, g = task % shape_.kv_heads;
      for (int64_t n = first_[run]; n < first_[run + 1]; ++n) {
        if (State(n).none()) continue;
        rows_.ScoreCodes(State(n), n, g, args_.positions.data[n]);
      }
    });
    const int64_t parts = (shape_.window + kPartSlots - 1) / kPartSlots;
    const int64_t work = 2 * args_.states.size() * rows_.heads() * shape_.window * shape_.key;
    RunTasks(cpu_, runs_ * shape_.kv_heads * parts, work, [&](int64_t task) {
      const int64_t unit = task / parts, part = task % parts * kPartSlots;
      ScorePart(unit / shape_.kv_heads, unit % shape_.kv_heads, part,
                std::min(part + kPartSlots, shape_.window));
    });
  }

 private:
  const VqState& State(int64_t n) const { return args_.states.data[n]; }

  // Rows of one state are a run: first_[r] to first_[r + 1].
  void ListRuns() {
    for (int64_t n = 0; n < args_.states.size(); ++n) {
      if (n > 0 && !State(n).none() && State(n).sum == State(n - 1).sum) continue;
      first_[runs_++] = n;
    }
    first_[runs_] = args_.states.size();
  }

  // Scores slots [begin, end), which no other task has, for all rows of a run. Each row's key is
  // written before the row is scored.
  void ScorePart(int64_t run, int64_t g, int64_t begin, int64_t end) {
    const int64_t first = first_[run];
    const VqState& state = State(first);
    if (state.none()) return;
    T* const keys = static_cast<T*>(state.window_key);
    const T* const panels = keys + shape_.KeyIndex(g, begin, 0);
    const int32_t* const codes = state.window_code + g * shape_.window;
    HWY_ALIGN float scores[kTileRows * kPartSlots];
    for (int64_t n = first; n < first_[run + 1]; ++n) {
      const int64_t position = args_.positions.data[n], own = position % shape_.window;
      if (own >= begin && own < end) {
        KeepKey(shape_, State(n), g, position);
        rows_.StoreKey(n, g, keys + shape_.KeyIndex(g, own, 0));
      }
      const int64_t slots = std::min(end, position + 1) - begin;
      if (slots <= 0) continue;
      for (int64_t i = 0; i < rows_.shared(); i += kTileRows) {
        const int64_t count = std::min(kTileRows, rows_.shared() - i);
        const float* queries[kTileRows];
        for (int64_t r = 0; r < count; ++r) queries[r] = rows_.Query(n, g * rows_.shared() + i + r);
        rows_.ScoreSlots(panels, slots, count, queries, scores, kPartSlots, panels);
        for (int64_t r = 0; r < count; ++r) {
          const int64_t h = g * rows_.shared() + i + r;
          Finish({n, h, g, own, n - first}, scores + r * kPartSlots, begin, begin + slots, codes);
        }
      }
    }
  }

  // A head of row n, whose own slot is `own`; `before` rows of the same state come before it in the
  // call.
  struct Head {
    int64_t n, h, g, own, before;
  };

  // Turns scores of slots [begin, end) into those of distances. Slots behind the row's own hold
  // positions of the ring's previous round.
  void Finish(const Head& head, const float* scores, int64_t begin, int64_t end,
              const int32_t* codes) const {
    float* const out = rows_.Out(head.n, head.h);
    const float* const code_scores = rows_.CodeScores(head.n, head.h);
    const int64_t turn = std::clamp(head.own + 1, begin, end);
    TurnRound(scores, codes + begin, code_scores, turn - begin, out + head.own - begin);
    TurnRound(scores + turn - begin, codes + turn, code_scores, end - turn,
              out + head.own + shape_.window - turn);
    // The window does not have the codes of the call's rows.
    for (int64_t d = 0; d <= std::min(head.before, shape_.window - 1); ++d) {
      const int64_t slot = (head.own - d + shape_.window) % shape_.window;
      if (slot < begin || slot >= end) continue;
      out[d] = scores[slot - begin] - code_scores[args_.rows.codes.row(head.n - d)[head.g]];
    }
  }

  CpuDevice& cpu_;
  const RingDecodeScoresArgs& args_;
  const VqShape& shape_;
  const Rows rows_;
  int64_t* const first_;
  int64_t runs_ = 0;
};

template <typename T>
class PrefillRing {
 public:
  PrefillRing(CpuDevice& cpu, const RingPrefillScoresArgs& args)
      : cpu_(cpu),
        args_(args),
        shape_(args.shape),
        rows_{args.shape, args.rows},
        tokens_(args.rows.q.dim(0)),
        end_(args.position + tokens_),
        base_(args.position / kRingStep * kRingStep),
        oldest_(std::max<int64_t>(0, args.position - shape_.window) / kRingStep * kRingStep),
        own_slots_((end_ - base_ + kRingStep - 1) / kRingStep * kRingStep),
        own_(cpu.Scratch<T>(0, shape_.kv_heads * own_slots_ * shape_.key)),
        codes_(cpu.Scratch<int32_t>(1, shape_.kv_heads * (end_ - oldest_))) {}

  void Run() {
    RunTasks(cpu_, shape_.kv_heads, rows_.ScoreCodesWork(), [&](int64_t g) {
      for (int64_t n = 0; n < tokens_; ++n) {
        rows_.ScoreCodes(args_.state, n, g, args_.position + n);
      }
    });
    RunTasks(cpu_, shape_.kv_heads, args_.rows.k.size(), [&](int64_t g) { Gather(g); });
    const int64_t blocks = (tokens_ + kBlockRows - 1) / kBlockRows;
    const int64_t work =
        tokens_ * rows_.heads() * std::min(end_, shape_.window + tokens_) * shape_.key;
    RunTasks(cpu_, shape_.kv_heads * blocks, work, [&](int64_t task) {
      const int64_t first = task % blocks * kBlockRows;
      ScoreBlock(task / blocks, first, std::min(first + kBlockRows, tokens_));
    });
    RunTasks(cpu_, shape_.kv_heads, args_.rows.k.size(), [&](int64_t g) { StoreKeys(g); });
  }

 private:
  // The key of `position`, in panels from base_ on.
  T* OwnKey(int64_t g, int64_t position) const {
    const int64_t slot = position - base_;
    return own_ + (g * own_slots_ + slot / kKeyPanel * kKeyPanel) * shape_.key + slot % kKeyPanel;
  }
  T* RingKey(int64_t g, int64_t position) const {
    return static_cast<T*>(args_.state.window_key) +
           shape_.KeyIndex(g, position % shape_.window, 0);
  }
  const int32_t* Codes(int64_t g, int64_t position) const {
    return codes_ + g * (end_ - oldest_) + position - oldest_;
  }

  // Gathers the call's keys as they will be stored. Ahead of them lie the ring's keys of the 64
  // positions in which the call begins. Also gathers the codes of all positions that are scored.
  void Gather(int64_t g) {
    T* const first = OwnKey(g, base_);
    std::fill_n(first, own_slots_ * shape_.key, T{});
    for (int64_t position = base_; position < args_.position; ++position) {
      const T* const from = RingKey(g, position);
      T* const to = OwnKey(g, position);
      for (int64_t i = 0; i < shape_.key; ++i) to[i * kKeyPanel] = from[i * kKeyPanel];
    }
    for (int64_t n = 0; n < tokens_; ++n) rows_.StoreKey(n, g, OwnKey(g, args_.position + n));
    int32_t* const codes = codes_ + g * (end_ - oldest_);
    for (int64_t position = oldest_; position < args_.position; ++position) {
      codes[position - oldest_] =
          args_.state.window_code[g * shape_.window + position % shape_.window];
    }
    for (int64_t n = 0; n < tokens_; ++n) {
      codes[args_.position + n - oldest_] = args_.rows.codes.row(n)[g];
    }
  }

  void ScoreBlock(int64_t g, int64_t first, int64_t end) const {
    const int64_t begin = args_.position + first, last = args_.position + end - 1;
    const int64_t from = std::max<int64_t>(0, begin - shape_.window + 1) / kRingStep * kRingStep;
    for (int64_t keys = from; keys <= last; keys += kRingStep) {
      const T* const panels = keys < base_ ? RingKey(g, keys) : OwnKey(g, keys);
      for (int64_t h = g * rows_.shared(); h < (g + 1) * rows_.shared(); ++h) {
        for (int64_t n = first; n < end; n += kTileRows) {
          ScoreTile(g, h, n, std::min(kTileRows, end - n), keys, panels);
        }
      }
    }
  }

  // Scores 64 keys from position `keys` on, for a few rows of a head.
  void ScoreTile(int64_t g, int64_t h, int64_t n, int64_t count, int64_t keys,
                 const T* panels) const {
    if (keys > args_.position + n + count - 1) return;
    HWY_ALIGN float scores[kTileRows * kRingStep];
    const float* queries[kTileRows];
    for (int64_t r = 0; r < count; ++r) queries[r] = rows_.Query(n + r, h);
    rows_.ScoreSlots<T>(panels, kRingStep, count, queries, scores, kRingStep, nullptr);
    for (int64_t r = 0; r < count; ++r) {
      const int64_t position = args_.position + n + r;
      const int64_t from = std::max(keys, position - shape_.window + 1);
      const int64_t to = std::min(keys + kRingStep, position + 1);
      if (from >= to) continue;
      TurnRound(scores + r * kRingStep + from - keys, Codes(g, from), rows_.CodeScores(n + r, h),
                to - from, rows_.Out(n + r, h) + position - from);
    }
  }

  void StoreKeys(int64_t g) {
    for (int64_t n = std::max<int64_t>(0, tokens_ - shape_.window); n < tokens_; ++n) {
      rows_.StoreKey(n, g, RingKey(g, args_.position + n));
    }
  }

  CpuDevice& cpu_;
  const RingPrefillScoresArgs& args_;
  const VqShape& shape_;
  const Rows rows_;
  const int64_t tokens_;
  const int64_t end_;        // position behind the last row's
  const int64_t base_;       // the first of the 64 positions that contain the first row's
  const int64_t oldest_;     // the first of the 64 positions that contain the ring's oldest key
  const int64_t own_slots_;  // positions from base_ on, whole 64s
  T* const own_;             // [G, own_slots_ / 16, K, 16]
  int32_t* const codes_;     // [G, end_ - oldest_]
};

void DecodeRingScores(CpuDevice& cpu, const RingDecodeScoresArgs& args) {
  if (args.shape.value_dtype == DType::kFloat32) {
    DecodeRing<float>(cpu, args).Run();
  } else {
    DecodeRing<BFloat16>(cpu, args).Run();
  }
}

void PrefillRingScores(CpuDevice& cpu, const RingPrefillScoresArgs& args) {
  if (args.rows.q.dim(0) == 0) return;
  if (args.shape.value_dtype == DType::kFloat32) {
    PrefillRing<float>(cpu, args).Run();
  } else {
    PrefillRing<BFloat16>(cpu, args).Run();
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {

HWY_EXPORT(DecodeRingScores);
HWY_EXPORT(PrefillRingScores);

absl::Status CpuRingDecodeScores(Device& device, const RingDecodeScoresArgs& args) {
  HWY_DYNAMIC_DISPATCH(DecodeRingScores)(AsCpu(device), args);
  return absl::OkStatus();
}

absl::Status CpuRingPrefillScores(Device& device, const RingPrefillScoresArgs& args) {
  HWY_DYNAMIC_DISPATCH(PrefillRingScores)(AsCpu(device), args);
  return absl::OkStatus();
}

}  // namespace tvq
#endif
