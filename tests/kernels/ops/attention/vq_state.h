// A session's state and inputs for the tests of VQ attention.
#ifndef TVQ_TESTS_KERNELS_OPS_ATTENTION_VQ_STATE_H_
#define TVQ_TESTS_KERNELS_OPS_ATTENTION_VQ_STATE_H_

#include <vector>

#include "kernels/numbers/bfloat16.h"
#include "kernels/ops/attention/vq_attention.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {

// Owns the memory of one VqState on a device, zeroed as a new session's is.
class OwnedState {
 public:
  OwnedState(Device& device, const VqShape& s)
      : sum_(device, std::vector<float>(static_cast<size_t>(s.kv_heads * s.codes * s.value))),
        carry_(device, std::vector<float>(static_cast<size_t>(s.kv_heads * s.codes * s.value))),
        count_(device, std::vector<int64_t>(static_cast<size_t>(s.kv_heads * s.codes))),
        window_code_(device, std::vector<int32_t>(static_cast<size_t>(s.kv_heads * s.window))),
        window_value_(device,
                      std::vector<uint8_t>(static_cast<size_t>(s.kv_heads * s.window * s.value) *
                                           SizeOf(s.value_dtype))),
        window_key_(device,
                    std::vector<uint8_t>(static_cast<size_t>(s.kv_heads * s.window * s.key) *
                                         SizeOf(s.value_dtype))),
        sink_key_(device, Zeros<float>(s.kv_heads * s.key)) {
    if (s.read == VqRead::kExact) return;
    const auto copy_row = [&](int64_t rows) {
      copy_.push_back({DeviceArray<int8_t>(device, Zeros<int8_t>(rows * s.value)),
                       DeviceArray<float>(device, Zeros<float>(rows * s.scales()))});
    };
    copy_row(s.kv_heads * s.codes);
    copy_row(s.kv_heads * s.window);
  }

  VqState View() const {
    VqState state{sum_.data(), carry_.data(), count_.data(), window_code_.data(),
                  window_value_.data()};
    state.window_key = window_key_.data();
    state.sink_key = sink_key_.data();
    if (copy_.empty()) return state;
    state.mean = copy_[0].rows.data();
    state.mean_scale = copy_[0].scales.data();
    state.recent = copy_[1].rows.data();
    state.recent_scale = copy_[1].scales.data();
    return state;
  }

  // Host copies.
  std::vector<float> sum() const { return sum_.Read(); }
  std::vector<float> carry() const { return carry_.Read(); }
  std::vector<int64_t> count() const { return count_.Read(); }
  std::vector<uint8_t> window_value() const { return window_value_.Read(); }

  // Of the read copy: rows of codes, then of slots.
  std::vector<int8_t> copied_rows(size_t part) const { return copy_[part].rows.Read(); }
  std::vector<float> copy_scales(size_t part) const { return copy_[part].scales.Read(); }

  bool SameCopy(const OwnedState& other) const {
    bool same = copy_.size() == other.copy_.size();
    for (size_t part = 0; same && part < copy_.size(); ++part) {
      same = copied_rows(part) == other.copied_rows(part) &&
             copy_scales(part) == other.copy_scales(part);
    }
    return same;
  }

  bool operator==(const OwnedState& other) const {
    return SameCopy(other) && sum() == other.sum() && carry() == other.carry() &&
           count() == other.count() && window_code_.Read() == other.window_code_.Read() &&
           window_value() == other.window_value() &&
           window_key_.Read() == other.window_key_.Read() &&
           sink_key_.Read() == other.sink_key_.Read();
  }

 private:
  struct CopiedRows {
    DeviceArray<int8_t> rows;
    DeviceArray<float> scales;
  };

  template <typename T>
  static std::vector<T> Zeros(int64_t count) {
    return std::vector<T>(static_cast<size_t>(count));
  }

  DeviceArray<float> sum_, carry_;
  DeviceArray<int64_t> count_;
  DeviceArray<int32_t> window_code_;
  DeviceArray<uint8_t> window_value_, window_key_;
  DeviceArray<float> sink_key_;
  std::vector<CopiedRows> copy_;
};

// What a decode step that may leave rows out says about it.
struct StepReads {
  std::vector<float> skipped_mass;  // [N, H]
  std::vector<int32_t> row_reads;   // [N, G, 2]
};

// One decode step of sessions `states` at `positions`; the inputs' rows, one a session.
inline std::vector<float> DecodeStep(Device& device, const VqShape& shape, int64_t heads,
                                     const std::vector<VqState>& states,
                                     const std::vector<int64_t>& positions,
                                     std::span<const float> code_scores,
                                     std::span<const float> position_scores,
                                     std::span<const int32_t> codes, std::span<const float> v,
                                     float skip_mass = 0, StepReads* reads = nullptr) {
  const auto n = static_cast<int64_t>(states.size());
  const DeviceArray<VqState> state(device, states);
  const DeviceArray<int64_t> position(device, positions);
  const DeviceArray<float> code_score(device, code_scores), position_score(device, position_scores),
      value(device, v);
  const DeviceArray<int32_t> code(device, codes);
  const DeviceArray<float> out(
      device, std::vector<float>(static_cast<size_t>(n * heads * shape.value), NAN));
  const DeviceArray<float> mass(device, std::vector<float>(static_cast<size_t>(n * heads), NAN));
  const DeviceArray<int32_t> rows(
      device, std::vector<int32_t>(static_cast<size_t>(n * shape.kv_heads * 2), -1));
  VqDecodeAttentionArgs args{shape,
                             {state.data(), {n}},
                             {position.data(), {n}},
                             {code_score.data(), {n, heads, shape.codes}},
                             {position_score.data(), {n, heads, shape.window}},
                             {code.data(), {n, shape.kv_heads}},
                             {value.data(), {n, shape.kv_heads, shape.value}},
                             {out.data(), {n, heads, shape.value}}};
  args.skip_mass = skip_mass;
  if (reads != nullptr) {
    args.skipped_mass = {mass.data(), {n, heads}};
    args.row_reads = {rows.data(), {n, shape.kv_heads, 2}};
  }
  const absl::Status status = VqDecodeAttention(device, args);
  EXPECT_TRUE(status.ok()) << status.ToString();
  if (reads != nullptr) *reads = {mass.Read(), rows.Read()};
  return out.Read();
}

// Takes `count` positions into a state: codes [count, G], v [count, G, V].
inline absl::Status Append(Device& device, const VqShape& shape, const OwnedState& state,
                           int64_t first, int64_t count, const DeviceArray<int32_t>& codes,
                           const DeviceArray<float>& v) {
  const int64_t heads = shape.kv_heads;
  const auto zeros = [&](int64_t width) {
    return DeviceArray<float>(device,
                              std::vector<float>(static_cast<size_t>(count * heads * width)));
  };
  const auto code_scores = zeros(shape.codes), position_scores = zeros(shape.window),
             out = zeros(shape.value);
  return VqPrefillAttention(device, {shape,
                                     state.View(),
                                     first,
                                     {code_scores.data(), {count, heads, shape.codes}},
                                     {position_scores.data(), {count, heads, shape.window}},
                                     {codes.data(), {count, heads}},
                                     {v.data(), {count, heads, shape.value}},
                                     {out.data(), {count, heads, shape.value}}});
}

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

  // Rows [first, first + count) of an input of `width` elements a position.
  template <typename T>
  static std::span<const T> Rows(const std::vector<T>& all, int64_t width, int64_t first,
                                 int64_t count) {
    return std::span(all).subspan(static_cast<size_t>(first * width),
                                  static_cast<size_t>(count * width));
  }

  // Positions from `first` on by decode, alone, those before by prefill. `reads`: of each step.
  std::vector<float> Decode(Device& device, OwnedState& state, int64_t first = 0,
                            float skip_mass = 0, std::vector<StepReads>* reads = nullptr) const {
    Append(device, state, 0, first);
    std::vector<float> out;
    for (int64_t t = first; t < tokens; ++t) {
      StepReads step;
      const std::vector<float> row = DecodeStep(
          device, shape, heads, {state.View()}, {t}, Rows(code_scores, heads * shape.codes, t, 1),
          Rows(position_scores, heads * shape.window, t, 1), Rows(codes, shape.kv_heads, t, 1),
          Rows(v, shape.kv_heads * shape.value, t, 1), skip_mass,
          reads == nullptr ? nullptr : &step);
      out.insert(out.end(), row.begin(), row.end());
      if (reads != nullptr) reads->push_back(std::move(step));
    }
    return out;
  }

  // Positions [first, first + count) by prefill, into `out` (all positions).
  void Prefill(Device& device, OwnedState& state, int64_t first, int64_t count,
               std::vector<float>& out, DType factors = DType::kFloat32) const {
    const DeviceArray<float> code_score(device,
                                        Rows(code_scores, heads * shape.codes, first, count));
    const DeviceArray<float> position_score(
        device, Rows(position_scores, heads * shape.window, first, count));
    const DeviceArray<int32_t> code(device, Rows(codes, shape.kv_heads, first, count));
    const DeviceArray<float> value(device, Rows(v, shape.kv_heads * shape.value, first, count));
    const int64_t width = heads * shape.value;
    const DeviceArray<float> result(device,
                                    std::vector<float>(static_cast<size_t>(count * width), NAN));
    const absl::Status status =
        VqPrefillAttention(device, {shape,
                                    state.View(),
                                    first,
                                    {code_score.data(), {count, heads, shape.codes}},
                                    {position_score.data(), {count, heads, shape.window}},
                                    {code.data(), {count, shape.kv_heads}},
                                    {value.data(), {count, shape.kv_heads, shape.value}},
                                    {result.data(), {count, heads, shape.value}},
                                    factors});
    EXPECT_TRUE(status.ok()) << status.ToString();
    const std::vector<float> read = result.Read();
    std::copy(read.begin(), read.end(), out.begin() + first * width);
  }

  // Prefill for what it leaves in the state.
  void Append(Device& device, OwnedState& state, int64_t first, int64_t count) const {
    std::vector<float> out(static_cast<size_t>(OutSize()));
    if (count > 0) Prefill(device, state, first, count, out);
  }

  // The definition, quadratic in float64: softmax over every position so far. `retired_as_stored`
  // values went through the window's dtype before they retired. Of positions from `first` on.
  std::vector<double> Quadratic(int64_t first = 0) const {
    std::vector<double> out;
    for (int64_t i = first; i < tokens; ++i) {
      for (int64_t h = 0; h < heads; ++h) {
        out.resize(out.size() + static_cast<size_t>(shape.value));
        Attend(i, h, out.data() + out.size() - shape.value);
      }
    }
    return out;
  }

  // What rounding may do to an output, relative to the largest |v|: an output is an average of v
  // with weights that sum to one. A score of magnitude m is rounded twice (sum, minus maximum), exp
  // is good to 2e-7 < 4 roundings, and the weight's sum and the value's sum are chains of at most
  // `keys` additions; numerator and denominator both count.
  double Bound() const {
    const double keys = static_cast<double>(shape.codes + shape.window + kVqPrefillSpan);
    const double score = Largest(code_scores) + Largest(position_scores);
    // Values of the copy are multiplied by count and scale first.
    const double factors = shape.read == VqRead::kInt8 ? 2 : 0;
    return (2 * keys + 2 * (3 * score + 4) + 8 + factors) * kRounding * Largest(v);
  }

  // Of prefill, which may round factors, or else take them as terms of bfloat16
  // (kernels/cuda/common/terms.cuh): with bfloat16 values weights and sums of two terms, each 2^-17
  // off, without the product of the second ones, each at most 2^-8 of the whole; with float32
  // values of three terms, without products that together are less than a rounding.
  double PrefillBound(DType factors) const {
    const double terms = shape.value_dtype == DType::kBFloat16 ? 2 * 0x1p-17 + 0x1p-16 : kRounding;
    return Bound() + (factors == DType::kBFloat16 ? kVqRoundedFactors : terms) * Largest(v);
  }

  // Of decode, which rounds the factors of the copy's rows.
  double DecodeBound() const {
    return Bound() + (shape.read == VqRead::kInt8 ? kVqCopySumError * Largest(v) : 0);
  }

  // What decode reads instead of a value is off by half a step of the copy, of which the largest
  // value has 127, and by what quotient, product and sum round on the way there; so is an average.
  double CopyBound() const {
    return shape.read == VqRead::kInt8 ? (0.5 / 127 + 4 * kRounding) * Largest(v) : 0;
  }

  VqShape shape;
  int64_t heads, tokens;
  std::vector<float> code_scores, position_scores;
  std::vector<int32_t> codes;
  std::vector<float> v;

  // The largest |v|.
  double LargestValue() const { return Largest(v); }

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

#endif  // TVQ_TESTS_KERNELS_OPS_ATTENTION_VQ_STATE_H_
