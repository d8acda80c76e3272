// Naive loops: the state in float32 pairs as the op's header says, everything else in float64.
// Prefill is decode, position by position.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/numbers/two_sum.h"
#include "kernels/ops/attention/linear_attention.h"

namespace tvq {
namespace {

// k [G, F], v [G, V].
void AppendPosition(const LinearShape& shape, const LinearState& state, const float* k,
                    const float* v) {
  for (int64_t row = 0; row < shape.kv_heads * shape.features; ++row) {
    const float feature = k[row];
    AddTwoSum(feature, state.key_sum[row], state.key_carry[row]);
    const float* value = v + row / shape.features * shape.value;
    for (int64_t c = 0; c < shape.value; ++c) {
      const int64_t at = row * shape.value + c;
      AddTwoSum(feature * value[c], state.key_value_sum[at], state.key_value_carry[at]);
    }
  }
}

// A query's features. With `exponents`, features that no key has reached are 0. b [F].
std::vector<double> QueryFeatures(const float* q, const float* b, int64_t count, bool exponents) {
  std::vector<double> features(q, q + count);
  if (!exponents) return features;
  double most = std::numeric_limits<double>::lowest();
  for (size_t i = 0; i < features.size(); ++i) {
    if (b[i] >= kLeastReached) most = std::max(most, features[i]);
  }
  for (size_t i = 0; i < features.size(); ++i) {
    features[i] = b[i] >= kLeastReached ? std::exp(features[i] - most) : 0;
  }
  return features;
}

// One head's attention to what key/value head g holds. q [F], out [V].
void Attend(const LinearShape& shape, const LinearState& state, int64_t g,
            const std::vector<double>& q, float* out) {
  const float* sums = state.key_value_sum + g * shape.features * shape.value;
  double denominator = 0;
  for (size_t i = 0; i < q.size(); ++i) {
    denominator += q[i] * state.key_sum[g * shape.features + static_cast<int64_t>(i)];
  }
  for (int64_t c = 0; c < shape.value; ++c) {
    double numerator = 0;
    for (size_t i = 0; i < q.size(); ++i)
      numerator += q[i] * sums[static_cast<int64_t>(i) * shape.value + c];
    out[c] = static_cast<float>(numerator / denominator);
  }
}

template <typename Args>
void Step(const Args& args, const LinearState& state, int64_t row) {
  const LinearShape& shape = args.shape;
  const int64_t heads = args.q.dim(1);
  AppendPosition(shape, state, args.k.row(row), args.v.row(row));
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t g = h / (heads / shape.kv_heads);
    const auto q =
        QueryFeatures(args.q.row(row) + h * shape.features, state.key_sum + g * shape.features,
                      shape.features, args.query_exponents);
    Attend(shape, state, g, q, args.out.row(row) + h * shape.value);
  }
}

}  // namespace

absl::Status ReferenceLinearDecodeAttention(Device&, const LinearDecodeAttentionArgs& args) {
  for (int64_t n = 0; n < args.states.size(); ++n) {
    if (args.states.data[n].none()) {
      std::fill_n(args.out.row(n), args.out.dim(1) * args.out.dim(2), 0.0F);
    } else {
      Step(args, args.states.data[n], n);
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceLinearPrefillAttention(Device&, const LinearPrefillAttentionArgs& args) {
  for (int64_t t = 0; t < args.q.dim(0); ++t) Step(args, args.state, t);
  return absl::OkStatus();
}

}  // namespace tvq
