// A session's state and inputs for the tests of VQ attention.
#ifndef TVQ_TESTS_KERNELS_OPS_VQ_STATE_H_
#define TVQ_TESTS_KERNELS_OPS_VQ_STATE_H_

#include <vector>

#include "kernels/bfloat16.h"
#include "kernels/ops/vq_attention.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {

// Owns the memory of one VqState, zeroed as a new session's is.
struct OwnedState {
  explicit OwnedState(const VqShape& s)
      : shape(s),
        sum(static_cast<size_t>(s.kv_heads * s.codes * s.value)),
        carry(sum.size()),
        count(static_cast<size_t>(s.kv_heads * s.codes)),
        window_code(static_cast<size_t>(s.kv_heads * s.window)),
        window_value(static_cast<size_t>(s.kv_heads * s.window * s.value) * SizeOf(s.value_dtype)) {
  }

  VqState View() {
    return {sum.data(), carry.data(), count.data(), window_code.data(), window_value.data()};
  }
  bool operator==(const OwnedState& other) const {
    return sum == other.sum && carry == other.carry && count == other.count &&
           window_code == other.window_code && window_value == other.window_value;
  }

  VqShape shape;
  std::vector<float> sum, carry;
  std::vector<int64_t> count;
  std::vector<int32_t> window_code;
  std::vector<uint8_t> window_value;
};

// What a layer would give attention for `tokens` positions of one session, and what comes out.
struct VqInputs {
  VqInputs(const VqShape& s, int64_t heads_, int64_t tokens_, uint32_t seed)
      : shape(s),
        heads(heads_),
        tokens(tokens_),
        code_scores(RandomFloats(tokens_ * heads_ * s.codes, seed * 4, 2)),
        position_scores(RandomFloats(tokens_ * heads_ * s.window, seed * 4 + 1, 2)),
        codes(RandomIndices(tokens_ * s.kv_heads, s.codes, seed * 4 + 2)),
        v(RandomFloats(tokens_ * s.kv_heads * s.value, seed * 4 + 3)) {}

  int64_t OutSize() const { return tokens * heads * shape.value; }

  // Position t by decode, beside other sessions or alone.
  std::vector<float> Decode(Device& device, OwnedState& state) const {
    std::vector<float> out(static_cast<size_t>(OutSize()), NAN);
    for (int64_t t = 0; t < tokens; ++t) {
      const VqState view = state.View();
      const absl::Status status = VqDecodeAttention(
          device, {shape,
                   {&view, 1},
                   {&t, 1},
                   {code_scores.data() + t * heads * shape.codes, {1, heads, shape.codes}},
                   {position_scores.data() + t * heads * shape.window, {1, heads, shape.window}},
                   {codes.data() + t * shape.kv_heads, {1, shape.kv_heads}},
                   {v.data() + t * shape.kv_heads * shape.value, {1, shape.kv_heads, shape.value}},
                   {out.data() + t * heads * shape.value, {1, heads, shape.value}}});
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
    return out;
  }

  // Positions [first, first + count) by prefill, into `out` (all positions).
  void Prefill(Device& device, OwnedState& state, int64_t first, int64_t count,
               std::vector<float>& out) const {
    const absl::Status status = VqPrefillAttention(
        device,
        {shape,
         state.View(),
         first,
         {code_scores.data() + first * heads * shape.codes, {count, heads, shape.codes}},
         {position_scores.data() + first * heads * shape.window, {count, heads, shape.window}},
         {codes.data() + first * shape.kv_heads, {count, shape.kv_heads}},
         {v.data() + first * shape.kv_heads * shape.value, {count, shape.kv_heads, shape.value}},
         {out.data() + first * heads * shape.value, {count, heads, shape.value}}});
    EXPECT_TRUE(status.ok()) << status.ToString();
  }

  void Append(Device& device, OwnedState& state, int64_t first, int64_t count) const {
    const absl::Status status = VqAppend(
        device,
        {shape,
         state.View(),
         first,
         {codes.data() + first * shape.kv_heads, {count, shape.kv_heads}},
         {v.data() + first * shape.kv_heads * shape.value, {count, shape.kv_heads, shape.value}}});
    EXPECT_TRUE(status.ok()) << status.ToString();
  }

  // The definition, quadratic in float64: softmax over every position so far. `retired_as_stored`
  // values went through the window's dtype before they retired.
  std::vector<double> Quadratic() const {
    std::vector<double> out(static_cast<size_t>(OutSize()));
    for (int64_t i = 0; i < tokens; ++i) {
      for (int64_t h = 0; h < heads; ++h) Attend(i, h, out.data() + (i * heads + h) * shape.value);
    }
    return out;
  }

  // What rounding may do to an output, relative to the largest |v|: an output is an average of v
  // with weights that sum to one. A score of magnitude m is rounded twice (sum, minus maximum), exp
  // is good to 2e-7 < 4 roundings, and the weight's sum and the value's sum are chains of at most
  // `keys` additions; numerator and denominator both count.
  double Bound() const {
    const double keys = static_cast<double>(shape.codes + shape.window + kVqPrefillBlock);
    const double score = Largest(code_scores) + Largest(position_scores);
    return (2 * keys + 2 * (3 * score + 4) + 8) * kRounding * Largest(v);
  }

  VqShape shape;
  int64_t heads, tokens;
  std::vector<float> code_scores, position_scores;
  std::vector<int32_t> codes;
  std::vector<float> v;

 private:
  static double Largest(const std::vector<float>& values) {
    double largest = 0;
    for (const float value : values) largest = std::max(largest, double(std::abs(value)));
    return largest;
  }

  double Value(int64_t j, int64_t g, int64_t c) const {
    const float value = v[static_cast<size_t>((j * shape.kv_heads + g) * shape.value + c)];
    return shape.value_dtype == DType::kFloat32 ? value : ToFloat(ToBFloat16(value));
  }

  void Attend(int64_t i, int64_t h, double* out) const {
    const int64_t g = h / (heads / shape.kv_heads);
    std::vector<double> score(static_cast<size_t>(i + 1));
    double maximum = -INFINITY;
    for (int64_t j = 0; j <= i; ++j) {
      const int64_t code = codes[static_cast<size_t>(j * shape.kv_heads + g)];
      double s = code_scores[static_cast<size_t>((i * heads + h) * shape.codes + code)];
      if (i - j < shape.window) {
        s += position_scores[static_cast<size_t>((i * heads + h) * shape.window + i - j)];
      }
      score[static_cast<size_t>(j)] = s;
      maximum = std::max(maximum, s);
    }
    double denominator = 0;
    for (double& s : score) denominator += s = std::exp(s - maximum);
    for (int64_t c = 0; c < shape.value; ++c) {
      double sum = 0;
      for (int64_t j = 0; j <= i; ++j) sum += score[static_cast<size_t>(j)] * Value(j, g, c);
      out[c] = sum / denominator;
    }
  }
};

}  // namespace tvq

#endif  // TVQ_TESTS_KERNELS_OPS_VQ_STATE_H_
