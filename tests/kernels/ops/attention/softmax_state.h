// A session's pages and inputs for the tests of softmax attention.
#ifndef TVQ_TESTS_KERNELS_OPS_ATTENTION_SOFTMAX_STATE_H_
#define TVQ_TESTS_KERNELS_OPS_ATTENTION_SOFTMAX_STATE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "kernels/cpu/softmax_attention/pages.h"
#include "kernels/numbers/bfloat16.h"
#include "kernels/ops/attention/softmax_attention.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {

// Owns the pages of one session on a device, each exactly as long as two layers, the second of
// which the tests use. What nobody wrote is NaN.
class OwnedPages {
 public:
  OwnedPages(Device& device, const KeyValueShape& shape, int64_t positions)
      : device_(device), shape_(shape) {
    const int64_t pages = (positions + kKeyValuePage - 1) / kKeyValuePage;
    const std::vector<std::byte> nothing(bytes(), std::byte{0xff});
    std::vector<uintptr_t> table;
    table.reserve(static_cast<size_t>(pages));
    for (int64_t p = 0; p < pages; ++p) {
      memory_.emplace_back(device, nothing);
      table.push_back(reinterpret_cast<uintptr_t>(memory_.back().data()));
    }
    table_.emplace(device, table);
  }

  KeyValuePages View() const {
    return {reinterpret_cast<void* const*>(table_->data()), std::ssize(memory_)};
  }

  // Positions [0, count) as the layout says they lie, of the rows k [.., G, K] and v [.., G, V].
  void Fill(int64_t count, const float* k, const float* v) {
    if (shape_.dtype == DType::kFloat32) {
      FillAs<float>(count, k, v);
    } else {
      FillAs<BFloat16>(count, k, v);
    }
  }

  bool operator==(const OwnedPages& other) const {
    return std::equal(memory_.begin(), memory_.end(), other.memory_.begin(), other.memory_.end(),
                      [](const auto& a, const auto& b) { return a.Read() == b.Read(); });
  }

 private:
  size_t bytes() const { return static_cast<size_t>(2 * shape_.LayerBytes()); }

  template <typename T>
  void FillAs(int64_t count, const float* k, const float* v) {
    for (size_t p = 0; p < memory_.size(); ++p) {
      const int64_t first = static_cast<int64_t>(p) * kKeyValuePage;
      std::vector<std::byte> host = memory_[p].Read();
      void* const page = host.data();
      const KeyValuePages pages{&page, 1};
      const LayerPages<T> layer{shape_, shape_.LayerBytes(), pages};
      for (int64_t i = first; i < std::min(count, first + kKeyValuePage); ++i) {
        for (int64_t g = 0; g < shape_.kv_heads; ++g) {
          const int64_t row = i * shape_.kv_heads + g;
          AppendKeyValue(layer, g, i - first, k + row * shape_.key, v + row * shape_.value);
        }
      }
      EXPECT_TRUE(device_.CopyFromHost(memory_[p].data(), host.data(), bytes()).ok());
    }
  }

  Device& device_;
  const KeyValueShape shape_;
  std::vector<DeviceArray<std::byte>> memory_;
  std::optional<DeviceArray<uintptr_t>> table_;  // addresses of the pages
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
  const DeviceArray<KeyValuePages> session(device, sessions);
  const DeviceArray<int64_t> position(device, positions);
  const DeviceArray<float> query(device, q), scores(device, position_scores), key(device, k),
      value(device, v);
  const DeviceArray<float> out(device,
                               std::vector<float>(static_cast<size_t>(n * heads * s.value), NAN));
  const absl::Status status =
      SoftmaxDecodeAttention(device, {s,
                                      s.LayerBytes(),
                                      {session.data(), {n}},
                                      {position.data(), {n}},
                                      {query.data(), {n, heads, s.key}},
                                      {scores.data(), {n, heads, window}},
                                      {key.data(), {n, s.kv_heads, s.key}},
                                      {value.data(), {n, s.kv_heads, s.value}},
                                      {out.data(), {n, heads, s.value}}});
  EXPECT_TRUE(status.ok()) << status.ToString();
  return out.Read();
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

  // The pages of the first `count` positions, as they lie.
  void Fill(OwnedPages& pages, int64_t count) const { pages.Fill(count, k.data(), v.data()); }

  // Positions from `first` on by decode, alone; those before are there.
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
    const DeviceArray<float> query(device, Q(first, count)),
        scores(device, PositionScores(first, count)), key(device, K(first, count)),
        value(device, V(first, count));
    const int64_t width = heads * shape.value;
    const DeviceArray<float> result(device,
                                    std::vector<float>(static_cast<size_t>(count * width), NAN));
    const absl::Status status =
        SoftmaxPrefillAttention(device, {shape,
                                         shape.LayerBytes(),
                                         pages.View(),
                                         first,
                                         {query.data(), {count, heads, shape.key}},
                                         {scores.data(), {count, heads, window}},
                                         {key.data(), {count, shape.kv_heads, shape.key}},
                                         {value.data(), {count, shape.kv_heads, shape.value}},
                                         {result.data(), {count, heads, shape.value}}});
    EXPECT_TRUE(status.ok()) << status.ToString();
    const std::vector<float> read = result.Read();
    std::copy(read.begin(), read.end(), out.begin() + first * width);
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
  // with weights that sum to one. A score is a chain of K products, whose magnitudes sum to at most
  // |q| |k|, and is rounded twice more (with the position's score, minus the maximum); exp is good
  // to 2e-7 < 4 roundings, as are the two factors that bring a tile to the maximum of all. The
  // weights' sum and the values' are chains of at most as many additions as there are positions;
  // numerator and denominator both count.
  double Bound() const { return BoundOf(static_cast<double>(shape.key), 0); }

  // Of prefill, which a GPU computes by matrix instructions. One adds 16 products and is off by up
  // to 40 roundings of the magnitudes it adds (SumRoundings, op_testing.h); factors are terms of
  // bfloat16, so that 16 products of float32 take six instructions, of queries and bfloat16 keys
  // three, of weights and bfloat16 values two. Of values 32 are summed so, and these sums as on the
  // CPU. What terms leave out (terms.cuh) is less than a rounding of each score, and of a weight of
  // two terms up to 2^-17, 128 roundings.
  double PrefillBound(const Device& device) const {
    if (device.host_memory()) return Bound();
    const bool stored = shape.dtype == DType::kBFloat16;
    const int64_t instructions = (shape.key + 15) / 16 * (stored ? 3 : 6);
    return BoundOf(static_cast<double>(40 * instructions + 1),
                   40 * 2 * (stored ? 2 : 6) + (stored ? 128 : 1));
  }

  static double Largest(const std::vector<float>& values) { return LargestNorm(values, 1); }

  KeyValueShape shape;
  int64_t heads, window, tokens;
  std::vector<float> q, position_scores, k, v;

 private:
  // The largest Euclidean norm of `width` neighbours.
  static double LargestNorm(const std::vector<float>& values, int64_t width) {
    double largest = 0;
    for (size_t i = 0; i < values.size(); i += static_cast<size_t>(width)) {
      double squares = 0;
      for (size_t c = i; c < i + static_cast<size_t>(width); ++c) {
        squares += static_cast<double>(values[c]) * values[c];
      }
      largest = std::max(largest, std::sqrt(squares));
    }
    return largest;
  }

  // Roundings of a score's chain, and of the values' sum beside those of its additions.
  double BoundOf(double of_score, double of_sum) const {
    // A key is rounded to the pages' type first.
    const double terms = LargestNorm(q, shape.key) * LargestNorm(k, shape.key) * (1 + 0x1p-8);
    const double score = Largest(position_scores) + terms;
    const double exponent = (of_score + 1) * terms + 4 * score + 12;
    return (2 * static_cast<double>(tokens) + 2 * exponent + of_sum + 8) * kRounding * Largest(v) *
           (1 + 0x1p-8);
  }

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

#endif  // TVQ_TESTS_KERNELS_OPS_ATTENTION_SOFTMAX_STATE_H_
