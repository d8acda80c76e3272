// A session's pages and inputs for the tests of softmax attention. Its ops run on the CPU alone, so
// that device memory is host memory here.
#ifndef TVQ_TESTS_KERNELS_OPS_SOFTMAX_STATE_H_
#define TVQ_TESTS_KERNELS_OPS_SOFTMAX_STATE_H_

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/bfloat16.h"
#include "kernels/ops/softmax_attention.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {

// Owns the pages of one session, each exactly as long as two layers, the second of which the tests
// use. What nobody wrote is NaN.
class OwnedPages {
 public:
  OwnedPages(Device& device, const KeyValueShape& shape, int64_t positions)
      : bytes_(static_cast<size_t>(2 * shape.LayerBytes())) {
    const int64_t pages = (positions + kKeyValuePage - 1) / kKeyValuePage;
    for (int64_t p = 0; p < pages; ++p) {
      memory_.push_back(device.Allocate(bytes_).value());
      std::memset(memory_.back().data(), 0xff, bytes_);
      pages_.push_back(memory_.back().data());
    }
  }

  KeyValuePages View() const { return {pages_.data(), static_cast<int64_t>(pages_.size())}; }

  bool operator==(const OwnedPages& other) const {
    return std::equal(memory_.begin(), memory_.end(), other.memory_.begin(), other.memory_.end(),
                      [this](const Buffer& a, const Buffer& b) {
                        return std::memcmp(a.data(), b.data(), bytes_) == 0;
                      });
  }

 private:
  size_t bytes_;
  std::vector<Buffer> memory_;
  std::vector<void*> pages_;
};

// One decode step of `sessions` at `positions`; the inputs' rows, one a session.
inline std::vector<float> SoftmaxDecodeStep(Device& device, const KeyValueShape& s, int64_t heads,
                                            int64_t window,
                                            const std::vector<KeyValuePages>& sessions,
                                            const std::vector<int64_t>& positions,
                                            std::span<const float> q,
                                            std::span<const float> position_scores,
                                            std::span<const float> k, std::span<const float> v) {
  const auto n = static_cast<int64_t>(sessions.size());
  std::vector<float> out(static_cast<size_t>(n * heads * s.value), NAN);
  const absl::Status status =
      SoftmaxDecodeAttention(device, {s,
                                      s.LayerBytes(),
                                      {sessions.data(), {n}},
                                      {positions.data(), {n}},
                                      {q.data(), {n, heads, s.key}},
                                      {position_scores.data(), {n, heads, window}},
                                      {k.data(), {n, s.kv_heads, s.key}},
                                      {v.data(), {n, s.kv_heads, s.value}},
                                      {out.data(), {n, heads, s.value}}});
  EXPECT_TRUE(status.ok()) << status.ToString();
  return out;
}

// What a layer would give attention for `tokens` positions of one session, and what comes out.
struct SoftmaxInputs {
  SoftmaxInputs(const KeyValueShape& s, int64_t heads_, int64_t window_, int64_t tokens_,
                uint32_t seed)
      : shape(s),
        heads(heads_),
        window(window_),
        tokens(tokens_),
        // Scores of a standard deviation of 2, whatever the width.
        q(RandomFloats(tokens_ * heads_ * s.key, seed * 4,
                       2 / std::sqrt(static_cast<float>(s.key)))),
        position_scores(RandomFloats(tokens_ * heads_ * window_, seed * 4 + 1, 2)),
        k(RandomFloats(tokens_ * s.kv_heads * s.key, seed * 4 + 2)),
        v(RandomFloats(tokens_ * s.kv_heads * s.value, seed * 4 + 3)) {}

  int64_t OutSize() const { return tokens * heads * shape.value; }

  // Rows [first, first + count) of an input of `width` elements a position.
  static std::span<const float> Rows(const std::vector<float>& all, int64_t width, int64_t first,
                                     int64_t count) {
    return std::span(all).subspan(static_cast<size_t>(first * width),
                                  static_cast<size_t>(count * width));
  }
  std::span<const float> Q(int64_t first, int64_t count) const {
    return Rows(q, heads * shape.key, first, count);
  }
  std::span<const float> PositionScores(int64_t first, int64_t count) const {
    return Rows(position_scores, heads * window, first, count);
  }
  std::span<const float> K(int64_t first, int64_t count) const {
    return Rows(k, shape.kv_heads * shape.key, first, count);
  }
  std::span<const float> V(int64_t first, int64_t count) const {
    return Rows(v, shape.kv_heads * shape.value, first, count);
  }

  // Positions from `first` on by decode, alone.
  std::vector<float> Decode(Device& device, const OwnedPages& pages, int64_t first = 0) const {
    std::vector<float> out;
    for (int64_t t = first; t < tokens; ++t) {
      const std::vector<float> row =
          SoftmaxDecodeStep(device, shape, heads, window, {pages.View()}, {t}, Q(t, 1),
                            PositionScores(t, 1), K(t, 1), V(t, 1));
      out.insert(out.end(), row.begin(), row.end());
    }
    return out;
  }

  // Positions [first, first + count) by prefill, into `out` (all positions).
  void Prefill(Device& device, const OwnedPages& pages, int64_t first, int64_t count,
               std::vector<float>& out) const {
    const absl::Status status = SoftmaxPrefillAttention(
        device, {shape,
                 shape.LayerBytes(),
                 pages.View(),
                 first,
                 {Q(first, count).data(), {count, heads, shape.key}},
                 {PositionScores(first, count).data(), {count, heads, window}},
                 {K(first, count).data(), {count, shape.kv_heads, shape.key}},
                 {V(first, count).data(), {count, shape.kv_heads, shape.value}},
                 {out.data() + first * heads * shape.value, {count, heads, shape.value}}});
    EXPECT_TRUE(status.ok()) << status.ToString();
  }

  // The definition, quadratic in float64, of positions from `first` on.
  std::vector<double> Quadratic(int64_t first = 0) const {
    std::vector<double> out;
    for (int64_t i = first; i < tokens; ++i) {
      for (int64_t h = 0; h < heads; ++h) Attend(i, h, out);
    }
    return out;
  }

  // What rounding may do to an output, relative to the largest |v|: an output is an average of v
  // with weights that sum to one. A score is a chain of K products, and is rounded twice more (with
  // the position's score, minus the maximum); exp is good to 2e-7 < 4 roundings, as are the two
  // factors that bring a tile to the maximum of all. The weights' sum and the values' are chains of
  // at most as many additions as there are positions; numerator and denominator both count.
  double Bound() const {
    const double terms = Largest(q) * Largest(k) * static_cast<double>(shape.key);
    const double score = Largest(position_scores) + terms;
    const double exponent = static_cast<double>(shape.key + 1) * terms + 4 * score + 12;
    return (2 * static_cast<double>(tokens) + 2 * exponent + 8) * kRounding * Largest(v);
  }

  static double Largest(const std::vector<float>& values) {
    double largest = 0;
    for (const float value : values) largest = std::max(largest, double(std::abs(value)));
    return largest;
  }

  KeyValueShape shape;
  int64_t heads, window, tokens;
  std::vector<float> q, position_scores, k, v;

 private:
  double Stored(float value) const {
    return shape.dtype == DType::kFloat32 ? value : ToFloat(ToBFloat16(value));
  }

  // Appends the V values of one head.
  void Attend(int64_t i, int64_t h, std::vector<double>& out) const {
    const int64_t g = h / (heads / shape.kv_heads);
    std::vector<double> score(static_cast<size_t>(i + 1));
    double maximum = -INFINITY;
    for (int64_t j = 0; j <= i; ++j) {
      const float* key = K(j, 1).data() + g * shape.key;
      const float* query = Q(i, 1).data() + h * shape.key;
      double s = i - j < window ? PositionScores(i, 1)[static_cast<size_t>(h * window + i - j)] : 0;
      for (int64_t c = 0; c < shape.key; ++c) s += query[c] * Stored(key[c]);
      score[static_cast<size_t>(j)] = s;
      maximum = std::max(maximum, s);
    }
    double denominator = 0;
    for (double& s : score) denominator += s = std::exp(s - maximum);
    std::vector<double> sum(static_cast<size_t>(shape.value));
    for (int64_t j = 0; j <= i; ++j) {
      const float* value = V(j, 1).data() + g * shape.value;
      for (size_t c = 0; c < sum.size(); ++c) {
        sum[c] += score[static_cast<size_t>(j)] / denominator * Stored(value[c]);
      }
    }
    out.insert(out.end(), sum.begin(), sum.end());
  }
};

}  // namespace tvq

#endif  // TVQ_TESTS_KERNELS_OPS_SOFTMAX_STATE_H_
