// The recurrent ops as layers (layer.h): their inputs, their calls, and their formulas as the
// headers of the ops state them.
#ifndef TVQ_TESTS_KERNELS_OPS_RECURRENT_LAYERS_H_
#define TVQ_TESTS_KERNELS_OPS_RECURRENT_LAYERS_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/ops/recurrent/gated_delta_rule.h"
#include "kernels/ops/recurrent/mamba_scan.h"
#include "kernels/ops/recurrent/recent_inputs.h"
#include "kernels/ops/recurrent/rwkv_time_mix.h"
#include "tests/kernels/ops/recurrent/layer.h"

namespace tvq {

// Numbers between 0 and 1.
inline std::vector<float> RandomShares(int64_t count, uint32_t seed) {
  std::vector<float> values = RandomFloats(count, seed);
  for (float& x : values) x = 1 / (1 + std::exp(-x));
  return values;
}
// Numbers below 0.
inline std::vector<float> RandomRates(int64_t count, uint32_t seed) {
  std::vector<float> values = RandomFloats(count, seed);
  for (float& x : values) x = -std::exp(x);
  return values;
}
inline void ExpectOk(const absl::Status& status) { EXPECT_TRUE(status.ok()) << status.ToString(); }

struct TokenShiftLayer : Layer {
  TokenShiftLayer(int64_t mixtures_, int64_t width_, int64_t positions)
      : Layer(absl::StrCat("TokenShift of ", mixtures_, " x ", width_), positions),
        mixtures(mixtures_),
        width(width_),
        x(RandomFloats(positions * width, 1), positions),
        mix(RandomFloats(mixtures * width, 2)) {
    inputs = width;
    out = mixtures * width;
  }

  std::vector<float> Run(Device& device, const RecurrentRows& sessions,
                         const Rows& rows) const override {
    const auto count = static_cast<int64_t>(rows.size());
    const DeviceArray<float> sent = x.Send(device, rows), weights(device, mix),
                             result = Unwritten(device, count * out);
    ExpectOk(TokenShift(device, {sessions,
                                 {sent.data(), {count, width}},
                                 {weights.data(), {mixtures, width}},
                                 {result.data(), {mixtures, count, width}}}));
    const std::vector<float> by_mixture = result.Read();
    std::vector<float> by_row;
    for (int64_t n = 0; n < count; ++n) {
      for (int64_t m = 0; m < mixtures; ++m) {
        const auto from = by_mixture.begin() + (m * count + n) * width;
        by_row.insert(by_row.end(), from, from + width);
      }
    }
    return by_row;
  }
  Step Expect(int64_t n, const StateValues& before) const override {
    Step step;
    for (size_t i = 0; i < mix.size(); ++i) {
      const size_t c = i % static_cast<size_t>(width);
      const Bounded now = x.row(n)[c];
      step.out.push_back(now + (Bounded(before.inputs[c]) - now) * Bounded(mix[i]));
    }
    step.inputs.assign(x.row(n), x.row(n) + width);
    return step;
  }

  int64_t mixtures, width;
  RowValues x;
  std::vector<float> mix;
};

struct ConvolutionLayer : Layer {
  // The channels begin at column `first_` of `columns_`.
  ConvolutionLayer(int64_t width_, int64_t channels_, int64_t first_, int64_t columns_,
                   bool has_bias, int64_t positions)
      : Layer(absl::StrCat("CausalConvolution of ", width_, " x ", channels_), positions),
        width(width_),
        channels(channels_),
        first(first_),
        x(RandomFloats(positions * columns_, 3), positions),
        weight(RandomFloats(width * channels, 4)) {
    if (has_bias) bias = RandomFloats(channels, 5);
    inputs = (width - 1) * channels;
    out = channels;
  }

  std::vector<float> Run(Device& device, const RecurrentRows& sessions,
                         const Rows& rows) const override {
    const auto count = static_cast<int64_t>(rows.size());
    const DeviceArray<float> sent = x.Send(device, rows), weights(device, weight),
                             biases(device, bias), result = Unwritten(device, count * out);
    CausalConvolutionArgs args{.sessions = sessions,
                               .x = {sent.data(), {count, x.width}},
                               .first = first,
                               .weight = {weights.data(), {width, channels}},
                               .bias = {},
                               .out = {result.data(), {count, channels}}};
    if (!bias.empty()) args.bias = {biases.data(), {channels}};
    ExpectOk(CausalConvolution(device, args));
    return result.Read();
  }
  Step Expect(int64_t n, const StateValues& before) const override {
    Step step;
    step.inputs = before.inputs;
    step.inputs.insert(step.inputs.end(), x.row(n) + first, x.row(n) + first + channels);
    for (int64_t c = 0; c < channels; ++c) {
      std::vector<Bounded> terms;
      if (!bias.empty()) terms.emplace_back(bias[static_cast<size_t>(c)]);
      for (int64_t j = 0; j < width; ++j) {
        const auto at = static_cast<size_t>(j * channels + c);
        terms.push_back(Bounded(weight[at]) * Bounded(step.inputs[at]));
      }
      step.out.push_back(Silu(Sum(terms)));
    }
    step.inputs.erase(step.inputs.begin(), step.inputs.begin() + channels);
    return step;
  }

  int64_t width, channels, first;
  RowValues x;
  std::vector<float> weight, bias;
};

// The vectors of a head at one position.
struct BoundedVectors {
  std::vector<Bounded> w, a, b, k, q, v;
};

// An op with a matrix a head.
struct MatrixLayer : Layer {
  MatrixLayer(std::string op, int64_t heads_, int64_t key_, int64_t value_, int64_t positions)
      : Layer(absl::StrCat(op, " of ", heads_, " x ", key_, " x ", value_), positions),
        heads(heads_),
        key(key_),
        value(value_) {
    matrix = heads * key * value;
    inputs = 1;  // which every state has
    out = heads * value;
  }

  virtual BoundedVectors Prepare(int64_t n, int64_t h) const = 0;
  virtual std::vector<Bounded> Finish(int64_t n, int64_t h, const BoundedVectors& at,
                                      const std::vector<Bounded>& y) const = 0;

  Step Expect(int64_t n, const StateValues& before) const override {
    Step step;
    step.inputs = before.inputs;
    step.matrix.assign(before.matrix.begin(), before.matrix.end());
    for (int64_t h = 0; h < heads; ++h) {
      const BoundedVectors at = Prepare(n, h);
      std::vector<Bounded> y;
      for (int64_t j = 0; j < value; ++j) {
        const auto s = [&](size_t i) -> Bounded& {
          return step.matrix[static_cast<size_t>((h * key + static_cast<int64_t>(i)) * value + j)];
        };
        std::vector<Bounded> terms;
        for (size_t i = 0; i < at.a.size(); ++i) terms.push_back(at.a[i] * s(i));
        const Bounded removed = Sum(terms);
        terms.clear();
        for (size_t i = 0; i < at.k.size(); ++i) {
          const Bounded kept = at.w[i] * s(i), added = at.k[i] * at.v[static_cast<size_t>(j)];
          s(i) = at.a.empty() ? kept + added : Sum({kept, -(at.b[i] * removed), added});
          terms.push_back(s(i) * at.q[i]);
        }
        y.push_back(Sum(terms));
      }
      const std::vector<Bounded> finished = Finish(n, h, at, y);
      step.out.insert(step.out.end(), finished.begin(), finished.end());
    }
    return step;
  }

  int64_t heads, key, value;
};

struct TimeMixLayer : MatrixLayer {
  TimeMixLayer(int64_t heads_, int64_t width, bool mixes_values, int64_t positions)
      : MatrixLayer("RwkvTimeMix", heads_, width, width, positions) {
    uint32_t seed = 10;
    for (RowValues* normal : {&r, &k, &v, &gate}) {
      *normal = {RandomFloats(positions * out, ++seed), positions};
    }
    for (RowValues* share : {&decay, &rate}) {
      *share = {RandomShares(positions * out, ++seed), positions};
    }
    if (mixes_values) {
      v_first = {RandomFloats(positions * out, ++seed), positions};
      v_mix = {RandomShares(positions * out, ++seed), positions};
    }
    for (auto* weights : {&k_k, &k_a, &r_k, &gain, &bias}) *weights = RandomFloats(out, ++seed);
  }

  std::vector<float> Run(Device& device, const RecurrentRows& sessions,
                         const Rows& rows) const override {
    const auto count = static_cast<int64_t>(rows.size());
    std::vector<DeviceArray<float>> sent;
    sent.reserve(13);
    const auto of = [&](const RowValues& values) -> Tensor<const float, 3> {
      if (values.all.empty()) return {};
      return {sent.emplace_back(values.Send(device, rows)).data(), {count, heads, key}};
    };
    const auto weights = [&](const std::vector<float>& values) -> Matrix<const float> {
      return {sent.emplace_back(device, values).data(), {heads, key}};
    };
    const DeviceArray<float> result = Unwritten(device, count * out);
    ExpectOk(RwkvTimeMix(device, {.sessions = sessions,
                                  .r = of(r),
                                  .k = of(k),
                                  .v = of(v),
                                  .decay = of(decay),
                                  .rate = of(rate),
                                  .gate = of(gate),
                                  .v_first = of(v_first),
                                  .v_mix = of(v_mix),
                                  .k_k = weights(k_k),
                                  .k_a = weights(k_a),
                                  .r_k = weights(r_k),
                                  .gain = weights(gain),
                                  .bias = weights(bias),
                                  .epsilon = epsilon,
                                  .out = {result.data(), {count, heads, key}}}));
    return result.Read();
  }
  BoundedVectors Prepare(int64_t n, int64_t h) const override {
    BoundedVectors at;
    std::vector<Bounded> removals, squares;
    for (int64_t i = h * key; i < (h + 1) * key; ++i) {
      removals.push_back(Of(k, n, i) * Of(k_k, i));
      squares.push_back(removals.back() * removals.back());
    }
    const Bounded norm = Clamp(Sqrt(Sum(squares)), kRwkvLeastNorm, 1e300);
    for (int64_t i = h * key; i < (h + 1) * key; ++i) {
      const Bounded share = Of(rate, n, i), a = removals[static_cast<size_t>(i - h * key)] / norm;
      at.w.push_back(Exp(Bounded(kRwkvDecayScale) * Of(decay, n, i)));
      at.a.push_back(a);
      at.b.push_back(a * share);
      at.k.push_back(Of(k, n, i) * (Bounded(1) + (share - 1) * Of(k_a, i)));
      at.q.push_back(Of(r, n, i));
      Bounded mixed = Of(v, n, i);
      if (!v_first.all.empty()) mixed = mixed + (Of(v_first, n, i) - mixed) * Of(v_mix, n, i);
      at.v.push_back(mixed);
    }
    return at;
  }
  std::vector<Bounded> Finish(int64_t n, int64_t h, const BoundedVectors& at,
                              const std::vector<Bounded>& y) const override {
    const Bounded mean = Sum(y) / Bounded(static_cast<double>(key));
    std::vector<Bounded> squares, bonuses, finished;
    for (const Bounded& each : y) squares.push_back((each - mean) * (each - mean));
    const Bounded deviation =
        Sqrt(Sum(squares) / Bounded(static_cast<double>(key)) + Bounded(epsilon));
    for (size_t i = 0; i < y.size(); ++i) {
      bonuses.push_back(at.q[i] * at.k[i] * Of(r_k, h * key + static_cast<int64_t>(i)));
    }
    const Bounded bonus = Sum(bonuses);
    for (size_t i = 0; i < y.size(); ++i) {
      const int64_t channel = h * key + static_cast<int64_t>(i);
      finished.push_back(
          Sum({(y[i] - mean) / deviation * Of(gain, channel), Of(bias, channel), bonus * at.v[i]}) *
          Of(gate, n, channel));
    }
    return finished;
  }

  static Bounded Of(const RowValues& values, int64_t n, int64_t i) { return values.row(n)[i]; }
  static Bounded Of(const std::vector<float>& values, int64_t i) {
    return values[static_cast<size_t>(i)];
  }

  RowValues r, k, v, gate, decay, rate, v_first, v_mix;
  std::vector<float> k_k, k_a, r_k, gain, bias;
  float epsilon = 64e-5F;
};

struct DeltaLayer : MatrixLayer {
  DeltaLayer(const GatedDeltaShape& s, int64_t positions)
      : MatrixLayer("GatedDeltaRule", s.heads, s.key, s.value, positions),
        shape(s),
        projected(RandomFloats(positions * s.projected(), 30), positions),
        convolved(RandomFloats(positions * s.convolved(), 31), positions),
        rate(RandomRates(heads, 32)),
        decay_bias(RandomFloats(heads, 33)),
        gain(RandomFloats(value, 34)) {}

  std::vector<float> Run(Device& device, const RecurrentRows& sessions,
                         const Rows& rows) const override {
    const auto count = static_cast<int64_t>(rows.size());
    const DeviceArray<float> sent = projected.Send(device, rows),
                             mixed = convolved.Send(device, rows), rates(device, rate),
                             biases(device, decay_bias), gains(device, gain),
                             result = Unwritten(device, count * out);
    ExpectOk(GatedDeltaRule(device, {.sessions = sessions,
                                     .shape = shape,
                                     .projected = {sent.data(), {count, shape.projected()}},
                                     .convolved = {mixed.data(), {count, shape.convolved()}},
                                     .rate = {rates.data(), {heads}},
                                     .decay_bias = {biases.data(), {heads}},
                                     .gain = {gains.data(), {value}},
                                     .epsilon = epsilon,
                                     .out = {result.data(), {count, heads, value}}}));
    return result.Read();
  }
  BoundedVectors Prepare(int64_t n, int64_t h) const override {
    const int64_t g = h / (heads / shape.key_heads), keys = shape.key_heads * key;
    const float* const query = convolved.row(n) + g * key;
    const float* const strength = projected.row(n) + shape.convolved() + heads * value;
    const auto norm = [&](const float* x) {
      std::vector<Bounded> squares{kDeltaNormEpsilon};
      for (int64_t i = 0; i < key; ++i) squares.push_back(Bounded(x[i]) * Bounded(x[i]));
      return Sqrt(Sum(squares));
    };
    const Bounded query_norm = norm(query), key_norm = norm(query + keys);
    const auto head = static_cast<size_t>(h);
    const Bounded beta = Sigmoid(strength[h]);
    const Bounded alpha = Exp(Bounded(rate[head]) *
                              Softplus(Bounded(strength[heads + h]) + Bounded(decay_bias[head])));
    const Bounded scale(1 / std::sqrt(static_cast<double>(key)), 0, 1);
    BoundedVectors at;
    at.w.assign(static_cast<size_t>(key), alpha);
    for (int64_t i = 0; i < key; ++i) {
      const Bounded unit = Bounded(query[keys + i]) / key_norm;
      at.a.push_back(unit);
      at.b.push_back(alpha * beta * unit);
      at.k.push_back(unit);
      at.q.push_back(Bounded(query[i]) / query_norm * scale);
    }
    for (int64_t j = 0; j < value; ++j) {
      at.v.push_back(beta * Bounded(convolved.row(n)[2 * keys + h * value + j]));
    }
    return at;
  }
  std::vector<Bounded> Finish(int64_t n, int64_t h, const BoundedVectors&,
                              const std::vector<Bounded>& y) const override {
    const float* const z = projected.row(n) + shape.convolved() + h * value;
    std::vector<Bounded> squares, finished;
    for (const Bounded& each : y) squares.push_back(each * each);
    const Bounded root =
        Sqrt(Sum(squares) / Bounded(static_cast<double>(value)) + Bounded(epsilon));
    for (size_t j = 0; j < y.size(); ++j) {
      finished.push_back(y[j] / root * Bounded(gain[j]) * Silu(z[j]));
    }
    return finished;
  }

  GatedDeltaShape shape;
  RowValues projected, convolved;
  std::vector<float> rate, decay_bias, gain;
  float epsilon = 1e-6F;
};

struct ScanLayer : MatrixLayer {
  ScanLayer(const MambaShape& s, float least, float most, int64_t positions)
      : MatrixLayer("MambaScan", s.heads, s.key, s.value, positions),
        shape(s),
        projected(RandomFloats(positions * s.projected(), 40), positions),
        convolved(RandomFloats(positions * s.convolved(), 41), positions),
        rate(RandomRates(heads, 42)),
        step_bias(RandomFloats(heads, 43)),
        skip(RandomFloats(heads, 44)),
        least_step(least),
        most_step(most) {}

  std::vector<float> Run(Device& device, const RecurrentRows& sessions,
                         const Rows& rows) const override {
    const auto count = static_cast<int64_t>(rows.size());
    const DeviceArray<float> sent = projected.Send(device, rows),
                             mixed = convolved.Send(device, rows), rates(device, rate),
                             biases(device, step_bias), skips(device, skip),
                             result = Unwritten(device, count * out);
    ExpectOk(MambaScan(device, {.sessions = sessions,
                                .shape = shape,
                                .projected = {sent.data(), {count, shape.projected()}},
                                .convolved = {mixed.data(), {count, shape.convolved()}},
                                .rate = {rates.data(), {heads}},
                                .step_bias = {biases.data(), {heads}},
                                .skip = {skips.data(), {heads}},
                                .least_step = least_step,
                                .most_step = most_step,
                                .out = {result.data(), {count, heads, value}}}));
    return result.Read();
  }
  BoundedVectors Prepare(int64_t n, int64_t h) const override {
    const int64_t g = h / (heads / shape.groups);
    const auto head = static_cast<size_t>(h);
    const float* const in = convolved.row(n) + shape.inner() + g * key;
    const float step = projected.row(n)[shape.inner() + shape.convolved() + h];
    const Bounded dt =
        Clamp(Softplus(Bounded(step) + Bounded(step_bias[head])), least_step, most_step);
    BoundedVectors at;
    at.w.assign(static_cast<size_t>(key), Exp(dt * Bounded(rate[head])));
    at.k.assign(in, in + key);
    at.q.assign(in + shape.groups * key, in + shape.groups * key + key);
    for (int64_t j = 0; j < value; ++j) at.v.push_back(dt * X(n, h, j));
    return at;
  }
  std::vector<Bounded> Finish(int64_t n, int64_t h, const BoundedVectors&,
                              const std::vector<Bounded>& y) const override {
    std::vector<Bounded> finished;
    for (int64_t j = 0; j < value; ++j) {
      const Bounded skipped = Bounded(skip[static_cast<size_t>(h)]) * X(n, h, j);
      finished.push_back((y[static_cast<size_t>(j)] + skipped) *
                         Silu(projected.row(n)[h * value + j]));
    }
    return finished;
  }

  Bounded X(int64_t n, int64_t h, int64_t j) const { return convolved.row(n)[h * value + j]; }

  MambaShape shape;
  RowValues projected, convolved;
  std::vector<float> rate, step_bias, skip;
  float least_step, most_step;
};

// Every op: one element, odd widths, those of published models; own and shared keys; with and
// without what is optional; more columns than a block of the GPU takes, more keys than a lane of
// it.
inline std::vector<std::unique_ptr<Layer>> Layers(int64_t positions) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  std::vector<std::unique_ptr<Layer>> layers;
  const auto add = [&]<typename L>(L* layer) { layers.emplace_back(layer); };
  add(new TokenShiftLayer(1, 1, positions));
  add(new TokenShiftLayer(6, 130, positions));
  add(new ConvolutionLayer(2, 1, 0, 1, false, positions));
  add(new ConvolutionLayer(4, 37, 5, 50, true, positions));
  add(new ConvolutionLayer(4, 200, 0, 210, false, positions));
  add(new ConvolutionLayer(20, 3, 1, 4, true, positions));
  add(new TimeMixLayer(3, 5, true, positions));
  add(new TimeMixLayer(2, 24, false, positions));
  add(new TimeMixLayer(2, 64, true, positions));
  add(new DeltaLayer({1, 1, 1, 1}, positions));
  add(new DeltaLayer({2, 2, 5, 3}, positions));
  add(new DeltaLayer({1, 3, 16, 24}, positions));
  add(new DeltaLayer({2, 4, 64, 64}, positions));
  add(new DeltaLayer({1, 1, 128, 128}, positions));
  add(new ScanLayer({1, 2, 5, 3}, 0, kInfinite, positions));
  add(new ScanLayer({2, 4, 16, 24}, 0.5F, 1, positions));
  add(new ScanLayer({1, 2, 64, 64}, 0, kInfinite, positions));
  add(new ScanLayer({1, 1, 128, 128}, 0.001F, kInfinite, positions));
  add(new ScanLayer({1, 1, 300, 20}, 0, kInfinite, positions));
  return layers;
}

}  // namespace tvq

#endif  // TVQ_TESTS_KERNELS_OPS_RECURRENT_LAYERS_H_
