// Naive float64 loops, position by position.
#include <algorithm>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/vq_attention/undo.h"
#include "kernels/numbers/bfloat16.h"
#include "kernels/ops/attention/ring_scores.h"

namespace tvq {
namespace {

// Row n of a call, at `position` of `state`; `before` rows of the same state come right before it.
struct Row {
  const VqShape& shape;
  const VqState& state;
  const RingRows& rows;
  int64_t n;
  int64_t position;
  int64_t before;

  int64_t shared() const { return rows.q.dim(1) / shape.kv_heads; }

  int32_t CodeAt(int64_t g, int64_t distance) const {
    if (distance <= before) return rows.codes.row(n - distance)[g];
    return state.window_code[g * shape.window + (position - distance) % shape.window];
  }

  void AppendKey(int64_t g) const {
    const float* k = rows.k.row(n) + g * shape.key;
    KeepKey(shape, state, g, position);
    for (int64_t i = 0; i < shape.key; ++i) {
      const int64_t at = shape.KeyIndex(g, position % shape.window, i);
      if (shape.value_dtype == DType::kFloat32) {
        StoreAs(k[i], static_cast<float*>(state.window_key) + at);
      } else {
        StoreAs(k[i], static_cast<BFloat16*>(state.window_key) + at);
      }
    }
    if (position > 0) return;
    rows.codes.row(n)[g] = static_cast<int32_t>(shape.codes - 1);
    std::copy_n(rows.k_plain.row(n) + g * shape.key, shape.key, state.sink_key + g * shape.key);
  }

  double KeyNumber(int64_t g, int64_t slot, int64_t i) const {
    const int64_t at = shape.KeyIndex(g, slot, i);
    return shape.value_dtype == DType::kFloat32
               ? static_cast<const float*>(state.window_key)[at]
               : ToFloat(static_cast<const BFloat16*>(state.window_key)[at]);
  }

  void ScoreHead(int64_t h) const {
    const int64_t g = h / shared();
    float* code_scores = rows.code_scores.row(n) + h * shape.codes;
    for (int64_t s = 0; s + 1 < shape.codes; ++s) code_scores[s] += rows.bias.data[h];
    double sink = 0;
    for (int64_t i = 0; i < shape.key; ++i) {
      sink += double{rows.q_sink.row(n)[h * shape.key + i]} * state.sink_key[g * shape.key + i];
    }
    code_scores[shape.codes - 1] = static_cast<float>(sink);
    float* out = rows.position_scores.row(n) + h * shape.window;
    for (int64_t d = 0; d < std::min(position + 1, shape.window); ++d) {
      double score = 0;
      for (int64_t i = 0; i < shape.key; ++i) {
        score += rows.q.row(n)[h * shape.key + i] * KeyNumber(g, (position - d) % shape.window, i);
      }
      out[d] = static_cast<float>(score - code_scores[CodeAt(g, d)]);
    }
  }

  void Score() const {
    for (int64_t g = 0; g < shape.kv_heads; ++g) AppendKey(g);
    for (int64_t h = 0; h < rows.q.dim(1); ++h) ScoreHead(h);
  }
};

}  // namespace

absl::Status ReferenceRingDecodeScores(Device&, const RingDecodeScoresArgs& args) {
  int64_t before = 0;
  for (int64_t n = 0; n < args.states.size(); ++n) {
    const VqState& state = args.states.data[n];
    if (state.none()) continue;
    before = n > 0 && state.sum == args.states.data[n - 1].sum ? before + 1 : 0;
    Row{args.shape, state, args.rows, n, args.positions.data[n], before}.Score();
  }
  return absl::OkStatus();
}

absl::Status ReferenceRingPrefillScores(Device&, const RingPrefillScoresArgs& args) {
  for (int64_t n = 0; n < args.rows.q.dim(0); ++n) {
    Row{args.shape, args.state, args.rows, n, args.position + n, n}.Score();
  }
  return absl::OkStatus();
}

}  // namespace tvq
