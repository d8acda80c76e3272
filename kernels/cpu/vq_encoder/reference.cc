// Naive loops: the sums in float32 pairs as the op's header says, everything else in float64.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/numbers/two_sum.h"
#include "kernels/ops/attention/vq_encoder.h"

namespace tvq {
namespace {

// scores [S], out [V].
void Attend(const VqEncoderAttentionArgs& args, int64_t g, const float* scores, float* out) {
  const auto [heads, codes, values] = args.shape;
  const int64_t* count = args.sums.count + g * codes;
  const float* sum = args.sums.sum + g * codes * values;
  double maximum = -INFINITY, denominator = 0;
  for (int64_t s = 0; s < codes; ++s) {
    if (count[s] > 0) maximum = std::max<double>(maximum, scores[s]);
  }
  std::vector<double> numerator(static_cast<size_t>(values));
  for (int64_t s = 0; s < codes; ++s) {
    if (count[s] == 0) continue;
    const double weight = std::exp(scores[s] - maximum);
    denominator += weight * static_cast<double>(count[s]);
    for (int64_t c = 0; c < values; ++c) {
      numerator[static_cast<size_t>(c)] += weight * sum[s * values + c];
    }
  }
  for (int64_t c = 0; c < values; ++c) {
    out[c] = static_cast<float>(numerator[static_cast<size_t>(c)] / denominator);
  }
}

}  // namespace

absl::Status ReferenceVqCollect(Device&, const VqCollectArgs& args) {
  const auto [heads, codes, values] = args.shape;
  for (int64_t i = 0; i < args.codes.size(); ++i) {
    const int64_t row = i % heads * codes + args.codes.data[i];
    ++args.sums.count[row];
    for (int64_t c = 0; c < values; ++c) {
      AddTwoSum(args.v.data[i * values + c], args.sums.sum[row * values + c],
                args.sums.carry[row * values + c]);
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceVqEncoderAttention(Device&, const VqEncoderAttentionArgs& args) {
  const int64_t heads = args.code_scores.dim(1);
  const int64_t shared = heads / args.shape.kv_heads;
  for (int64_t i = 0; i < args.code_scores.dim(0) * heads; ++i) {
    Attend(args, i % heads / shared, args.code_scores.data + i * args.shape.codes,
           args.out.data + i * args.shape.value);
  }
  return absl::OkStatus();
}

}  // namespace tvq
