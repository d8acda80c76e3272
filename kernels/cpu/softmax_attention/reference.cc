// Naive loops: keys and values are rounded to the pages' dtype, everything else is float64. Prefill
// is decode, position by position.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/softmax_attention/pages.h"
#include "kernels/ops/attention/softmax_attention.h"

namespace tvq {
namespace {

// One head's attention at `position`. q [K], position_scores [window], out [V].
template <typename T>
void Attend(const LayerPages<T>& layer, int64_t g, int64_t position, const float* q,
            const float* position_scores, int64_t window, float* out) {
  const KeyValueShape& shape = layer.shape;
  std::vector<double> scores;
  for (int64_t j = 0; j <= position; ++j) {
    const T* key = layer.Keys(j / kKeyValuePage, g) + shape.KeyIndex(0, j % kKeyValuePage, 0);
    double score = position - j < window ? position_scores[position - j] : 0.0F;
    for (int64_t i = 0; i < shape.key; ++i) {
      score += static_cast<double>(q[i]) * Widen(key[i * kKeyPanel]);
    }
    scores.push_back(score);
  }
  const double maximum = *std::max_element(scores.begin(), scores.end());
  double denominator = 0;
  std::vector<double> numerator(static_cast<size_t>(shape.value));
  for (int64_t j = 0; j <= position; ++j) {
    const double weight = std::exp(scores[static_cast<size_t>(j)] - maximum);
    denominator += weight;
    const T* value = layer.Values(j / kKeyValuePage, g) + j % kKeyValuePage * shape.value;
    for (size_t c = 0; c < numerator.size(); ++c) numerator[c] += weight * Widen(value[c]);
  }
  for (size_t c = 0; c < numerator.size(); ++c) {
    out[c] = static_cast<float>(numerator[c] / denominator);
  }
}

// Row `row` of the arguments is `position` of the session that has `pages`.
template <typename T, typename Args>
void Step(const Args& args, const KeyValuePages& pages, int64_t position, int64_t row) {
  const KeyValueShape& shape = args.shape;
  const LayerPages<T> layer{shape, args.layer_offset, pages};
  for (int64_t g = 0; g < shape.kv_heads; ++g) {
    AppendKeyValue(layer, g, position, args.k.row(row) + g * shape.key,
                   args.v.row(row) + g * shape.value);
  }
  const int64_t heads = args.q.dim(1);
  const int64_t window = args.position_scores.dim(2);
  for (int64_t h = 0; h < heads; ++h) {
    const float* position_scores =
        window == 0 ? nullptr : args.position_scores.row(row) + h * window;
    Attend(layer, h / (heads / shape.kv_heads), position, args.q.row(row) + h * shape.key,
           position_scores, window, args.out.row(row) + h * shape.value);
  }
}

template <typename Args>
void StepAsStored(const Args& args, const KeyValuePages& pages, int64_t position, int64_t row) {
  if (args.shape.dtype == DType::kFloat32) {
    Step<float>(args, pages, position, row);
  } else {
    Step<BFloat16>(args, pages, position, row);
  }
}

}  // namespace

absl::Status ReferenceSoftmaxDecodeAttention(Device&, const SoftmaxDecodeAttentionArgs& args) {
  for (int64_t n = 0; n < args.sessions.size(); ++n) {
    if (args.sessions.data[n].none()) {
      std::fill_n(args.out.row(n), args.out.dim(1) * args.out.dim(2), 0.0F);
    } else {
      StepAsStored(args, args.sessions.data[n], args.positions.data[n], n);
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceSoftmaxPrefillAttention(Device&, const SoftmaxPrefillAttentionArgs& args) {
  for (int64_t t = 0; t < args.q.dim(0); ++t) {
    StepAsStored(args, args.pages, args.position + t, t);
  }
  return absl::OkStatus();
}

}  // namespace tvq
