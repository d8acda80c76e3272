// Naive float64 loops.
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/turned_scores/recent_codes.h"
#include "kernels/ops/attention/turned_scores.h"

namespace tvq {
namespace {

// q . (Rot(d) - Rot(M)) key, where `turn` is a row of `turns`.
double TurnedDot(const float* q, const float* turn, const float* key, int64_t half) {
  double sum = 0;
  for (int64_t c = 0; c < half; ++c) {
    const double cos = turn[c], sin = turn[half + c];
    const double a = key[c], b = key[half + c];
    sum += q[c] * (a * cos - b * sin) + q[half + c] * (a * sin + b * cos);
  }
  return sum;
}

template <typename Args>
absl::Status Score(const Args& args) {
  const int64_t heads = args.q.dim(1), width = args.q.dim(2), window = args.keys.shape.window;
  const int64_t shared = heads / args.keys.shape.kv_heads;
  for (int64_t n = 0; n < args.q.dim(0); ++n) {
    const RecentCodes recent = RowOf(args, n);
    for (int64_t h = 0; h < heads; ++h) {
      float* out = args.out.row(n) + h * window;
      const float* keys = args.keys.codebook.row(h / shared);
      for (int64_t d = 0; d < window; ++d) {
        out[d] = 0;
        if (recent.state.none() || d >= recent.Count()) continue;
        out[d] = static_cast<float>(TurnedDot(args.q.row(n) + h * width, args.keys.turns.row(d),
                                              keys + recent.At(h / shared, d) * width, width / 2));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReferenceTurnedDecodeScores(Device&, const TurnedDecodeScoresArgs& args) {
  return Score(args);
}

absl::Status ReferenceTurnedPrefillScores(Device&, const TurnedPrefillScoresArgs& args) {
  return Score(args);
}

}  // namespace tvq
