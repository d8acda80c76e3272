// Naive loops: the state in float32 pairs as the contract has it, everything else in float64.
// Prefill is decode, position by position.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/bfloat16.h"
#include "kernels/cpu/reference_ops.h"
#include "kernels/cpu/vq_attention/window.h"
#include "kernels/two_sum.h"

namespace tvq {
namespace {

float WindowValue(const VqShape& shape, const VqState& state, int64_t index) {
  return shape.value_dtype == DType::kFloat32
             ? static_cast<const float*>(state.window_value)[index]
             : ToFloat(static_cast<const BFloat16*>(state.window_value)[index]);
}

void SetWindowValue(const VqShape& shape, const VqState& state, int64_t index, float value) {
  if (shape.value_dtype == DType::kFloat32) {
    static_cast<float*>(state.window_value)[index] = value;
  } else {
    static_cast<BFloat16*>(state.window_value)[index] = ToBFloat16(value);
  }
}

// codes [G], v [G, V].
void AppendPosition(const VqShape& shape, const VqState& state, int64_t position,
                    const int32_t* codes, const float* v) {
  const auto& [kv_heads, code_count, window, values, dtype] = shape;
  for (int64_t g = 0; g < kv_heads; ++g) {
    const int32_t retired = AppendCode(shape, state, g, position, codes[g]);
    const int64_t slot = (g * window + position % window) * values;
    for (int64_t c = 0; c < values; ++c) {
      if (retired != kNoCode) {
        const int64_t u = (g * code_count + retired) * values + c;
        AddTwoSum(WindowValue(shape, state, slot + c), state.sum[u], state.carry[u]);
      }
      SetWindowValue(shape, state, slot + c, v[g * values + c]);
    }
  }
}

// One head's attention of the newest position. code_scores [S], position_scores [W], out [V].
void Attend(const VqShape& shape, const VqState& state, int64_t g, int64_t position,
            const float* code_scores, const float* position_scores, float* out) {
  const int64_t recent = std::min(position + 1, shape.window);
  const auto slot = [&](int64_t distance) {
    return g * shape.window + (position - distance) % shape.window;
  };
  const auto score = [&](int64_t distance) {
    return static_cast<double>(code_scores[state.window_code[slot(distance)]]) +
           position_scores[distance];
  };
  const int64_t* count = state.count + g * shape.codes;
  double maximum = -INFINITY;
  for (int64_t s = 0; s < shape.codes; ++s) {
    if (count[s] > 0) maximum = std::max<double>(maximum, code_scores[s]);
  }
  for (int64_t d = 0; d < recent; ++d) maximum = std::max(maximum, score(d));

  double denominator = 0;
  std::vector<double> numerator(static_cast<size_t>(shape.value));
  for (int64_t s = 0; s < shape.codes; ++s) {
    if (count[s] == 0) continue;
    const double weight = std::exp(code_scores[s] - maximum);
    denominator += weight * static_cast<double>(count[s]);
    for (size_t c = 0; c < numerator.size(); ++c) {
      numerator[c] += weight * state.sum[(g * shape.codes + s) * shape.value + int64_t(c)];
    }
  }
  for (int64_t d = 0; d < recent; ++d) {
    const double weight = std::exp(score(d) - maximum);
    denominator += weight;
    for (size_t c = 0; c < numerator.size(); ++c) {
      numerator[c] += weight * WindowValue(shape, state, slot(d) * shape.value + int64_t(c));
    }
  }
  for (size_t c = 0; c < numerator.size(); ++c) {
    out[c] = static_cast<float>(numerator[c] / denominator);
  }
}

void Step(const VqShape& shape, const VqState& state, int64_t position, int64_t heads,
          const float* code_scores, const float* position_scores, const int32_t* codes,
          const float* v, float* out) {
  AppendPosition(shape, state, position, codes, v);
  for (int64_t h = 0; h < heads; ++h) {
    Attend(shape, state, h / (heads / shape.kv_heads), position, code_scores + h * shape.codes,
           position_scores + h * shape.window, out + h * shape.value);
  }
}

}  // namespace

absl::Status ReferenceVqAppend(Device&, const VqAppendArgs& args) {
  for (int64_t t = 0; t < args.codes.dim(0); ++t) {
    AppendPosition(args.shape, args.state, args.position + t, args.codes.row(t), args.v.row(t));
  }
  return absl::OkStatus();
}

absl::Status ReferenceVqDecodeAttention(Device&, const VqDecodeAttentionArgs& args) {
  for (int64_t n = 0; n < args.code_scores.dim(0); ++n) {
    if (args.states.data[n].none()) {
      std::fill_n(args.out.row(n), args.out.size() / args.out.dim(0), 0.0F);
      continue;
    }
    Step(args.shape, args.states.data[n], args.positions.data[n], args.code_scores.dim(1),
         args.code_scores.row(n), args.position_scores.row(n), args.codes.row(n), args.v.row(n),
         args.out.row(n));
  }
  return absl::OkStatus();
}

absl::Status ReferenceVqPrefillAttention(Device&, const VqPrefillAttentionArgs& args) {
  for (int64_t t = 0; t < args.code_scores.dim(0); ++t) {
    Step(args.shape, args.state, args.position + t, args.code_scores.dim(1),
         args.code_scores.row(t), args.position_scores.row(t), args.codes.row(t), args.v.row(t),
         args.out.row(t));
  }
  return absl::OkStatus();
}

}  // namespace tvq
