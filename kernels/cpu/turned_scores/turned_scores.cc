// The query is turned instead of the key, whose row of the codebook is then read as it lies.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/turned_scores/turned_scores.cc"
#include "kernels/ops/attention/turned_scores.h"

#include <algorithm>

#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/fast_math-inl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/turned_scores/recent_codes.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

using TurnTag = hn::CappedTag<float, 16>;

float TurnedDot(const float* HWY_RESTRICT q, const float* HWY_RESTRICT turn,
                const float* HWY_RESTRICT key, int64_t half) {
  const TurnTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto first = hn::Zero(d), second = hn::Zero(d);
  for (int64_t c = 0; c < half; c += lanes) {
    const auto count = static_cast<size_t>(std::min(lanes, half - c));
    const auto x = LoadFirst(d, q + c, count), y = LoadFirst(d, q + half + c, count);
    const auto cos = LoadFirst(d, turn + c, count), sin = LoadFirst(d, turn + half + c, count);
    const auto a = hn::MulAdd(x, cos, hn::Mul(y, sin));
    const auto b = hn::MulSub(y, cos, hn::Mul(x, sin));
    first = hn::MulAdd(a, LoadFirst(d, key + c, count), first);
    second = hn::MulAdd(b, LoadFirst(d, key + half + c, count), second);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(first, second)));
}

// Head h of a row: out [W].
void ScoreHead(const TurnedKeys& keys, const RecentCodes& recent, int64_t g, const float* q,
               float* out) {
  const int64_t width = keys.turns.dim(1), window = keys.shape.window;
  const int64_t count = recent.state.none() ? 0 : recent.Count();
  for (int64_t d = 0; d < count; ++d) {
    const float* key = keys.codebook.row(g) + recent.At(g, d) * width;
    out[d] = TurnedDot(q, keys.turns.row(d), key, width / 2);
  }
  std::fill(out + count, out + window, 0.0F);
}

template <typename Args>
void ScoreAll(CpuDevice& cpu, const Args& args) {
  const int64_t heads = args.q.dim(1), width = args.q.dim(2), window = args.keys.shape.window;
  const int64_t shared = heads / args.keys.shape.kv_heads;
  // Three multiply-adds for each number of a key.
  RunTasks(cpu, args.q.dim(0) * heads, 3 * args.out.size() * width, [&](int64_t task) {
    const int64_t n = task / heads, h = task % heads;
    ScoreHead(args.keys, RowOf(args, n), h / shared, args.q.row(n) + h * width,
              args.out.row(n) + h * window);
  });
}

void DecodeScores(CpuDevice& cpu, const TurnedDecodeScoresArgs& args) { ScoreAll(cpu, args); }
void PrefillScores(CpuDevice& cpu, const TurnedPrefillScoresArgs& args) { ScoreAll(cpu, args); }

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {

HWY_EXPORT(DecodeScores);
HWY_EXPORT(PrefillScores);

absl::Status CpuTurnedDecodeScores(Device& device, const TurnedDecodeScoresArgs& args) {
  HWY_DYNAMIC_DISPATCH(DecodeScores)(AsCpu(device), args);
  return absl::OkStatus();
}

absl::Status CpuTurnedPrefillScores(Device& device, const TurnedPrefillScoresArgs& args) {
  HWY_DYNAMIC_DISPATCH(PrefillScores)(AsCpu(device), args);
  return absl::OkStatus();
}

}  // namespace tvq
#endif
