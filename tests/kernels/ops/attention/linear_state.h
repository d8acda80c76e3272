// A session's state and inputs for the tests of linear attention.
#ifndef TVQ_TESTS_KERNELS_OPS_ATTENTION_LINEAR_STATE_H_
#define TVQ_TESTS_KERNELS_OPS_ATTENTION_LINEAR_STATE_H_

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "kernels/ops/attention/linear_attention.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {

// Owns the memory of one LinearState on a device, zeroed as a new session's is.
class OwnedLinearState {
 public:
  OwnedLinearState(Device& device, const LinearShape& s)
      : key_value_sum_(device, Zeros(s.kv_heads * s.features * s.value)),
        key_value_carry_(device, Zeros(s.kv_heads * s.features * s.value)),
        key_sum_(device, Zeros(s.kv_heads * s.features)),
        key_carry_(device, Zeros(s.kv_heads * s.features)) {}

  LinearState View() const {
    return {key_value_sum_.data(), key_value_carry_.data(), key_sum_.data(), key_carry_.data()};
  }

  // Host copies: sum + carry.
  std::vector<double> KeyValues() const { return Pair(key_value_sum_, key_value_carry_); }
  std::vector<double> Keys() const { return Pair(key_sum_, key_carry_); }

  bool operator==(const OwnedLinearState& other) const {
    return key_value_sum_.Read() == other.key_value_sum_.Read() &&
           key_value_carry_.Read() == other.key_value_carry_.Read() &&
           key_sum_.Read() == other.key_sum_.Read() && key_carry_.Read() == other.key_carry_.Read();
  }

 private:
  static std::vector<float> Zeros(int64_t count) {
    return std::vector<float>(static_cast<size_t>(count));
  }
  static std::vector<double> Pair(const DeviceArray<float>& sum, const DeviceArray<float>& carry) {
    const std::vector<float> sums = sum.Read(), carries = carry.Read();
    std::vector<double> pairs(sums.begin(), sums.end());
    for (size_t i = 0; i < pairs.size(); ++i) pairs[i] += carries[i];
    return pairs;
  }

  DeviceArray<float> key_value_sum_, key_value_carry_, key_sum_, key_carry_;
};

// One decode step of sessions `states`; the inputs' rows, one a session. `exponents`: of queries.
inline std::vector<float> LinearDecodeStep(Device& device, const LinearShape& s, int64_t heads,
                                           const std::vector<LinearState>& states,
                                           std::span<const float> q, std::span<const float> k,
                                           std::span<const float> v, bool exponents = false) {
  const auto n = static_cast<int64_t>(states.size());
  const DeviceArray<LinearState> state(device, states);
  const DeviceArray<float> query(device, q), key(device, k), value(device, v);
  const DeviceArray<float> out(device,
                               std::vector<float>(static_cast<size_t>(n * heads * s.value), NAN));
  const absl::Status status =
      LinearDecodeAttention(device, {s,
                                     {state.data(), {n}},
                                     {query.data(), {n, heads, s.features}},
                                     {key.data(), {n, s.kv_heads, s.features}},
                                     {value.data(), {n, s.kv_heads, s.value}},
                                     {out.data(), {n, heads, s.value}},
                                     exponents});
  EXPECT_TRUE(status.ok()) << status.ToString();
  return out.Read();
}

// Features: from e^-8 to 8, the most near 1.
inline std::vector<float> RandomFeatures(int64_t count, uint32_t seed) {
  std::vector<float> values = RandomFloats(count, seed, 2);
  for (float& x : values) x = x > 0 ? x + 1 : std::exp(x);
  return values;
}

// What a layer would give attention for `tokens` positions of one session, and what comes out.
struct LinearInputs {
  LinearInputs(const LinearShape& s, int64_t heads_, int64_t tokens_, uint32_t seed)
      : shape(s),
        heads(heads_),
        tokens(tokens_),
        q(RandomFeatures(tokens_ * heads_ * s.features, seed * 3)),
        k(RandomFeatures(tokens_ * s.kv_heads * s.features, seed * 3 + 1)),
        v(RandomFloats(tokens_ * s.kv_heads * s.value, seed * 3 + 2)) {}

  int64_t OutSize() const { return tokens * heads * shape.value; }
  int64_t QueryWidth() const { return heads * shape.features; }
  int64_t KeyWidth() const { return shape.kv_heads * shape.features; }
  int64_t ValueWidth() const { return shape.kv_heads * shape.value; }

  // Rows [first, first + count) of an input of `width` elements a position.
  static std::span<const float> Rows(const std::vector<float>& all, int64_t width, int64_t first,
                                     int64_t count) {
    return std::span(all).subspan(static_cast<size_t>(first * width),
                                  static_cast<size_t>(count * width));
  }

  // All positions by decode, alone.
  std::vector<float> Decode(Device& device, OwnedLinearState& state) const {
    std::vector<float> out;
    for (int64_t t = 0; t < tokens; ++t) {
      const std::vector<float> row =
          LinearDecodeStep(device, shape, heads, {state.View()}, Rows(q, QueryWidth(), t, 1),
                           Rows(k, KeyWidth(), t, 1), Rows(v, ValueWidth(), t, 1), exponents);
      out.insert(out.end(), row.begin(), row.end());
    }
    return out;
  }

  // Positions [first, first + count) by prefill, into `out` (all positions).
  void Prefill(Device& device, OwnedLinearState& state, int64_t first, int64_t count,
               std::vector<float>& out) const {
    const DeviceArray<float> query(device, Rows(q, QueryWidth(), first, count)),
        key(device, Rows(k, KeyWidth(), first, count)),
        value(device, Rows(v, ValueWidth(), first, count));
    const int64_t width = heads * shape.value;
    const DeviceArray<float> result(device,
                                    std::vector<float>(static_cast<size_t>(count * width), NAN));
    const absl::Status status =
        LinearPrefillAttention(device, {shape,
                                        state.View(),
                                        first,
                                        {query.data(), {count, heads, shape.features}},
                                        {key.data(), {count, shape.kv_heads, shape.features}},
                                        {value.data(), {count, shape.kv_heads, shape.value}},
                                        {result.data(), {count, heads, shape.value}},
                                        exponents});
    EXPECT_TRUE(status.ok()) << status.ToString();
    const std::vector<float> read = result.Read();
    std::copy(read.begin(), read.end(), out.begin() + first * width);
  }

  // The definition, quadratic in float64.
  std::vector<double> Quadratic() const {
    std::vector<double> out(static_cast<size_t>(OutSize()));
    for (int64_t i = 0; i < tokens; ++i) {
      for (int64_t h = 0; h < heads; ++h) Attend(i, h, out.data() + (i * heads + h) * shape.value);
    }
    return out;
  }

  // What rounding may do to an output, relative to the largest |v|: an output is an average of v
  // with weights above 0. The products of two features and with v are rounded, the state's sum is,
  // and the sum over F features and one block is a chain of at most so many additions; numerator
  // and denominator both count. Then a quotient.
  double Bound() const {
    const auto chain = static_cast<double>(shape.features + kLinearPrefillBlock);
    return (2 * (chain + 3) + 4) * kRounding * Largest(v);
  }

  static double Largest(const std::vector<float>& values) {
    double largest = 0;
    for (const float value : values) largest = std::max(largest, double(std::abs(value)));
    return largest;
  }

  LinearShape shape;
  int64_t heads, tokens;
  std::vector<float> q, k, v;
  bool exponents = false;  // q is what features are exponentials of

 private:
  double QueryFeature(size_t at) const { return exponents ? std::exp(double{q[at]}) : q[at]; }

  void Attend(int64_t i, int64_t h, double* out) const {
    const int64_t g = h / (heads / shape.kv_heads);
    std::vector<double> numerator(static_cast<size_t>(shape.value));
    double denominator = 0;
    for (int64_t j = 0; j <= i; ++j) {
      double weight = 0;
      for (int64_t c = 0; c < shape.features; ++c) {
        weight += QueryFeature(static_cast<size_t>((i * heads + h) * shape.features + c)) *
                  k[static_cast<size_t>((j * shape.kv_heads + g) * shape.features + c)];
      }
      denominator += weight;
      const float* value = v.data() + (j * shape.kv_heads + g) * shape.value;
      for (size_t c = 0; c < numerator.size(); ++c) numerator[c] += weight * value[c];
    }
    for (size_t c = 0; c < numerator.size(); ++c) out[c] = numerator[c] / denominator;
  }
};

}  // namespace tvq

#endif  // TVQ_TESTS_KERNELS_OPS_ATTENTION_LINEAR_STATE_H_
