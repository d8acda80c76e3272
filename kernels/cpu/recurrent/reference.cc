// Rows one after the other, head by head. A state is float64 within a call.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/recurrent/runs.h"
#include "kernels/ops/recurrent/gated_delta_rule.h"
#include "kernels/ops/recurrent/mamba_scan.h"
#include "kernels/ops/recurrent/recent_inputs.h"
#include "kernels/ops/recurrent/rwkv_time_mix.h"

namespace tvq {
namespace {

using Doubles = std::vector<double>;

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double Silu(double x) { return x * Sigmoid(x); }
double Softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

// The vectors of a head at one position, and what the recurrence makes of them.
struct Position {
  Doubles w, a, b, k, q;  // [K]
  Doubles v, y;           // [V]

  Position(int64_t key, int64_t value)
      : w(static_cast<size_t>(key)), a(w), b(w), k(w), q(w), v(static_cast<size_t>(value)), y(v) {}
};

void Step(Doubles& matrix, Position& at) {
  const size_t keys = at.k.size(), values = at.v.size();
  for (size_t j = 0; j < values; ++j) {
    double removed = 0;
    for (size_t i = 0; i < keys; ++i) removed += at.a[i] * matrix[i * values + j];
    at.y[j] = 0;
    for (size_t i = 0; i < keys; ++i) {
      double& s = matrix[i * values + j];
      s = at.w[i] * s - at.b[i] * removed + at.k[i] * at.v[j];
      at.y[j] += s * at.q[i];
    }
  }
}

// Takes every head of every row through the recurrence. prepare(n, h, at) fills the vectors in, and
// finish(n, h, at) reads y; `out` is zero for rows of no session.
template <typename Prepare, typename Finish>
void Recur(const RecurrentRows& sessions, int64_t key, Tensor<float, 3> out, const Prepare& prepare,
           const Finish& finish) {
  const int64_t rows = out.dim(0), heads = out.dim(1), value = out.dim(2), size = key * value;
  for (int64_t run = 0; run < Runs(sessions, rows); ++run) {
    VisitRun(sessions, run, rows, [&](const RecurrentState& state, int64_t first, int64_t count) {
      if (state.none()) return std::fill_n(out.row(first), heads * value, 0.0F), void();
      Keep(state.matrix, heads * size, state.kept_matrix);
      for (int64_t h = 0; h < heads; ++h) {
        Doubles matrix(state.matrix + h * size, state.matrix + (h + 1) * size);
        for (int64_t n = first; n < first + count; ++n) {
          Position at(key, value);
          prepare(n, h, at);
          Step(matrix, at);
          finish(n, h, at);
        }
        std::ranges::transform(matrix, state.matrix + h * size,
                               [](double s) { return static_cast<float>(s); });
      }
    });
  }
}

// The input `back` rows before row n of a run that began at row `first`, column c.
double InputBefore(const RecurrentState& state, Matrix<const float> x, int64_t first_column,
                   int64_t inputs, int64_t channels, int64_t first, int64_t n, int64_t back,
                   int64_t c) {
  const int64_t row = n - back;
  if (row >= first) return x.row(row)[first_column + c];
  return state.inputs[(inputs + row - first) * channels + c];
}

// Moves the last rows of a run into the session's inputs.
void TakeInputs(const RecurrentState& state, Matrix<const float> x, int64_t first_column,
                int64_t inputs, int64_t channels, int64_t first, int64_t count) {
  Keep(state.inputs, inputs * channels, state.kept_inputs);
  const std::vector<float> old(state.inputs, state.inputs + inputs * channels);
  RecurrentState from = state;
  from.inputs = const_cast<float*>(old.data());
  for (int64_t i = 0; i < inputs; ++i) {
    for (int64_t c = 0; c < channels; ++c) {
      state.inputs[i * channels + c] = static_cast<float>(InputBefore(
          from, x, first_column, inputs, channels, first, first + count, inputs - i, c));
    }
  }
}

}  // namespace

absl::Status ReferenceTokenShift(Device&, const TokenShiftArgs& args) {
  const int64_t rows = args.x.dim(0), width = args.x.dim(1);
  for (int64_t run = 0; run < Runs(args.sessions, rows); ++run) {
    VisitRun(
        args.sessions, run, rows, [&](const RecurrentState& state, int64_t first, int64_t count) {
          for (int64_t m = 0; m < args.mix.dim(0); ++m) {
            for (int64_t n = first; n < first + count; ++n) {
              float* const out = args.out.row(m) + n * width;
              for (int64_t c = 0; c < width; ++c) {
                const double x = args.x.row(n)[c];
                const double before =
                    state.none() ? 0 : InputBefore(state, args.x, 0, 1, width, first, n, 1, c);
                out[c] =
                    state.none() ? 0 : static_cast<float>(x + (before - x) * args.mix.row(m)[c]);
              }
            }
          }
          if (!state.none()) TakeInputs(state, args.x, 0, 1, width, first, count);
        });
  }
  return absl::OkStatus();
}

absl::Status ReferenceCausalConvolution(Device&, const CausalConvolutionArgs& args) {
  const int64_t rows = args.x.dim(0), width = args.weight.dim(0), channels = args.weight.dim(1);
  for (int64_t run = 0; run < Runs(args.sessions, rows); ++run) {
    VisitRun(
        args.sessions, run, rows, [&](const RecurrentState& state, int64_t first, int64_t count) {
          if (state.none()) return std::fill_n(args.out.row(first), channels, 0.0F), void();
          for (int64_t n = first; n < first + count; ++n) {
            for (int64_t c = 0; c < channels; ++c) {
              double sum = args.bias.empty() ? 0 : args.bias.data[c];
              for (int64_t j = 0; j < width; ++j) {
                sum += args.weight.row(j)[c] * InputBefore(state, args.x, args.first, width - 1,
                                                           channels, first, n, width - 1 - j, c);
              }
              args.out.row(n)[c] = static_cast<float>(Silu(sum));
            }
          }
          TakeInputs(state, args.x, args.first, width - 1, channels, first, count);
        });
  }
  return absl::OkStatus();
}

absl::Status ReferenceRwkvTimeMix(Device&, const RwkvTimeMixArgs& args) {
  const int64_t width = args.r.dim(2);
  const auto count = static_cast<size_t>(width);
  const auto prepare = [&](int64_t n, int64_t h, Position& at) {
    const int64_t first = h * width;
    const auto of = [&](const Tensor<const float, 3>& t, size_t i) -> double {
      return (t.row(n) + first)[i];
    };
    double squares = 0;
    for (size_t i = 0; i < count; ++i) {
      at.a[i] = of(args.k, i) * args.k_k.row(h)[i];
      squares += at.a[i] * at.a[i];
    }
    const double norm = std::max<double>(std::sqrt(squares), kRwkvLeastNorm);
    for (size_t i = 0; i < count; ++i) {
      const double rate = of(args.rate, i);
      at.w[i] = std::exp(kRwkvDecayScale * of(args.decay, i));
      at.a[i] /= norm;
      at.b[i] = at.a[i] * rate;
      at.k[i] = of(args.k, i) * (1 + (rate - 1) * args.k_a.row(h)[i]);
      at.q[i] = of(args.r, i);
      at.v[i] = of(args.v, i);
      if (args.v_first.empty()) continue;
      at.v[i] += (of(args.v_first, i) - at.v[i]) * of(args.v_mix, i);
    }
  };
  const auto finish = [&](int64_t n, int64_t h, const Position& at) {
    double mean = 0, squares = 0, bonus = 0;
    for (const double y : at.y) mean += y / static_cast<double>(count);
    for (const double y : at.y) squares += (y - mean) * (y - mean) / static_cast<double>(count);
    for (size_t i = 0; i < count; ++i) bonus += at.q[i] * at.k[i] * args.r_k.row(h)[i];
    for (size_t i = 0; i < count; ++i) {
      const double normed = (at.y[i] - mean) / std::sqrt(squares + args.epsilon);
      const double sum = normed * args.gain.row(h)[i] + args.bias.row(h)[i] + bonus * at.v[i];
      (args.out.row(n) + h * width)[i] =
          static_cast<float>(sum * (args.gate.row(n) + h * width)[i]);
    }
  };
  Recur(args.sessions, width, args.out, prepare, finish);
  return absl::OkStatus();
}

absl::Status ReferenceGatedDeltaRule(Device&, const GatedDeltaRuleArgs& args) {
  const GatedDeltaShape& shape = args.shape;
  const int64_t keys = shape.key_heads * shape.key, values = shape.heads * shape.value;
  const auto prepare = [&](int64_t n, int64_t h, Position& at) {
    const int64_t g = h / (shape.heads / shape.key_heads);
    const float* const query = args.convolved.row(n) + g * shape.key;
    const float* const key = query + keys;
    const float* const value = args.convolved.row(n) + 2 * keys + h * shape.value;
    const float* const strength = args.projected.row(n) + shape.convolved() + values;
    const float* const decay = strength + shape.heads;
    const auto norm = [&](const float* x) {
      double squares = kDeltaNormEpsilon;
      for (int64_t i = 0; i < shape.key; ++i) squares += static_cast<double>(x[i]) * x[i];
      return std::sqrt(squares);
    };
    const double query_norm = norm(query) * std::sqrt(static_cast<double>(shape.key));
    const double key_norm = norm(key), beta = Sigmoid(strength[h]);
    const double alpha = std::exp(
        args.rate.data[h] * Softplus(static_cast<double>(decay[h]) + args.decay_bias.data[h]));
    for (size_t i = 0; i < at.k.size(); ++i) {
      at.w[i] = alpha;
      at.a[i] = at.k[i] = key[i] / key_norm;
      at.b[i] = alpha * beta * at.k[i];
      at.q[i] = query[i] / query_norm;
    }
    for (size_t j = 0; j < at.v.size(); ++j) at.v[j] = beta * value[j];
  };
  const auto finish = [&](int64_t n, int64_t h, const Position& at) {
    const float* const z = args.projected.row(n) + shape.convolved() + h * shape.value;
    double squares = 0;
    for (const double y : at.y) squares += y * y / static_cast<double>(shape.value);
    for (size_t j = 0; j < at.y.size(); ++j) {
      (args.out.row(n) + h * shape.value)[j] = static_cast<float>(
          at.y[j] / std::sqrt(squares + args.epsilon) * args.gain.data[j] * Silu(z[j]));
    }
  };
  Recur(args.sessions, shape.key, args.out, prepare, finish);
  return absl::OkStatus();
}

absl::Status ReferenceMambaScan(Device&, const MambaScanArgs& args) {
  const MambaShape& shape = args.shape;
  const auto x_of = [&](int64_t n, int64_t h) { return args.convolved.row(n) + h * shape.value; };
  const auto prepare = [&](int64_t n, int64_t h, Position& at) {
    const int64_t g = h / (shape.heads / shape.groups);
    const float* const in = args.convolved.row(n) + shape.inner() + g * shape.key;
    const float* const out = in + shape.groups * shape.key;
    const double step = args.projected.row(n)[shape.inner() + shape.convolved() + h];
    const double dt = std::clamp<double>(Softplus(step + args.step_bias.data[h]), args.least_step,
                                         args.most_step);
    for (size_t i = 0; i < at.k.size(); ++i) {
      at.w[i] = std::exp(dt * args.rate.data[h]);
      at.k[i] = in[i];
      at.q[i] = out[i];
    }
    for (size_t j = 0; j < at.v.size(); ++j) at.v[j] = dt * x_of(n, h)[j];
  };
  const auto finish = [&](int64_t n, int64_t h, const Position& at) {
    const float* const z = args.projected.row(n) + h * shape.value;
    const double skip = args.skip.data[h];
    for (size_t j = 0; j < at.y.size(); ++j) {
      (args.out.row(n) + h * shape.value)[j] =
          static_cast<float>((at.y[j] + skip * x_of(n, h)[j]) * Silu(z[j]));
    }
  };
  Recur(args.sessions, shape.key, args.out, prepare, finish);
  return absl::OkStatus();
}

}  // namespace tvq
