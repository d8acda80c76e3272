#include "tests/conformance/oracle.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace tvq::conformance {
namespace {

using Values = std::vector<double>;

// W x, W [out, in].
Values Multiply(const Values& w, const Values& x) {
  const size_t in = x.size(), out = w.size() / in;
  Values y(out, 0.0);
  for (size_t o = 0; o < out; ++o) {
    for (size_t i = 0; i < in; ++i) y[o] += w[o * in + i] * x[i];
  }
  return y;
}

// x / sqrt(mean(x^2) + 1e-6) * factor, over each run of `width`.
Values Rms(Values x, size_t width, double factor) {
  for (size_t at = 0; at < x.size(); at += width) {
    double mean = 0;
    for (size_t i = 0; i < width; ++i) mean += x[at + i] * x[at + i];
    const double scale = factor / std::sqrt(mean / static_cast<double>(width) + 1e-6);
    for (size_t i = 0; i < width; ++i) x[at + i] *= scale;
  }
  return x;
}

Values Silu(Values x) {
  for (double& v : x) v /= 1 + std::exp(-v);
  return x;
}

Values Sinusoid(int64_t position, int64_t width, double lam) {
  Values s(static_cast<size_t>(width));
  for (int64_t c = 0; c < width / 2; ++c) {
    const double angle = static_cast<double>(position) /
                         std::pow(lam, 2.0 * static_cast<double>(c) / static_cast<double>(width));
    s[static_cast<size_t>(c)] = std::sin(angle);
    s[static_cast<size_t>(width / 2 + c)] = std::cos(angle);
  }
  return s;
}

double ToBFloat16(double value) {
  const auto single = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &single, sizeof(bits));
  bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000U;
  float rounded;
  std::memcpy(&rounded, &bits, sizeof(rounded));
  return rounded;
}

// Row by row to multiples of the largest / 127; the quotient in float32, as docs/model-format.md
// says.
void RoundToInt8(Values& matrix, size_t width) {
  for (size_t row = 0; row < matrix.size(); row += width) {
    double largest = 0;
    for (size_t i = row; i < row + width; ++i) largest = std::max(largest, std::abs(matrix[i]));
    const float scale = static_cast<float>(largest) / 127.0F;
    for (size_t i = row; i < row + width; ++i) {
      matrix[i] =
          std::nearbyint(static_cast<float>(matrix[i]) / scale) * static_cast<double>(scale);
    }
  }
}

double Dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

std::string Shape::Json() const {
  return nlohmann::json({{"model_type", "transformer_vq"},
                         {"vocab_size", vocab},
                         {"d_model", d_model},
                         {"d_k", d_k},
                         {"d_v", d_v},
                         {"n_code", n_code},
                         {"n_layer", n_layer},
                         {"n_head", n_head},
                         {"n_kv_head", n_kv_head},
                         {"block_len", block_len},
                         {"mem_len", mem_len},
                         {"prefill_chunk", prefill_chunk},
                         {"pe_abs", pe_abs},
                         {"pe_lam", pe_lam},
                         {"tie_word_embeddings", tied},
                         {"output_norm", output_norm},
                         {"logit_scale", logit_scale},
                         {"tokenizer", {{"type", "bytes"}}}})
      .dump();
}

Oracle::Oracle(Shape shape, WeightSource& weights, DType dtype) : shape_(std::move(shape)) {
  auto load = [&](const std::string& name, std::vector<int64_t> dims, bool matrix = false) {
    const std::vector<float> values = ToFloat32(*weights.Get(name, dims)).value();
    Values& stored = w_[name];
    stored.assign(values.begin(), values.end());
    if (matrix && dtype == DType::kBFloat16) {
      std::transform(stored.begin(), stored.end(), stored.begin(), ToBFloat16);
    }
    if (matrix && dtype == DType::kInt8) RoundToInt8(stored, static_cast<size_t>(dims[1]));
  };
  const Shape& s = shape_;
  load("embedding.weight", {s.vocab, s.d_model}, true);
  if (s.pe_abs) load("position.scale", {1});
  for (int64_t l = 0; l < s.n_layer; ++l) {
    const std::string p = "layers." + std::to_string(l) + ".";
    load(p + "norm.weight", {s.d_model});
    load(p + "norm.bias", {s.d_model});
    load(p + "q_proj.weight", {s.n_head * s.d_k, s.d_model}, true);
    load(p + "k_proj.weight", {s.n_kv_head * s.d_k, s.d_model}, true);
    load(p + "v_proj.weight", {s.n_kv_head * s.d_v, s.d_model}, true);
    load(p + "g_proj.weight", {s.n_head * s.d_v, s.d_model}, true);
    load(p + "r_proj.weight", {s.n_head * s.d_k, s.d_model});
    load(p + "o_proj.weight", {s.d_model, s.n_head * s.d_v}, true);
    load(p + "u", {s.n_head, s.d_k});
    load(p + "w", {s.n_head, s.d_k});
    load(p + "codebook.sum", {s.n_kv_head, s.n_code, s.d_k});
    load(p + "codebook.count", {s.n_kv_head, s.n_code});
  }
  if (s.output_norm) {
    load("norm.weight", {s.d_model});
    load("norm.bias", {s.d_model});
  }
  if (!s.tied) load("lm_head.weight", {s.vocab, s.d_model}, true);
  load("lm_head.bias", {s.vocab});
}

Values Oracle::Normed(const Values& x, const std::string& name) const {
  Values y = Rms(x, x.size(), 1.0);
  const Values& gain = w_.at(name + ".weight");
  const Values& bias = w_.at(name + ".bias");
  for (size_t i = 0; i < y.size(); ++i) y[i] = y[i] * gain[i] + bias[i];
  return y;
}

void Oracle::Unit(int64_t layer, std::vector<Values>& x, OracleRun& run) const {
  const Shape& s = shape_;
  const std::string p = "layers." + std::to_string(layer) + ".";
  const double t = std::pow(static_cast<double>(s.d_k), -0.25);
  const auto key_width = static_cast<size_t>(s.d_k);
  const size_t length = x.size();

  Values codebook = w_.at(p + "codebook.sum");
  const Values& count = w_.at(p + "codebook.count");
  for (size_t i = 0; i < codebook.size(); ++i) {
    codebook[i] /= std::max(count[i / key_width], 0.01);
  }
  std::vector<Values> q(length), k(length), v(length), g(length), r(length);
  for (size_t i = 0; i < length; ++i) {
    const Values tilde = Normed(x[i], p + "norm");
    q[i] = Rms(Multiply(w_.at(p + "q_proj.weight"), tilde), key_width, t);
    k[i] = Rms(Multiply(w_.at(p + "k_proj.weight"), tilde), key_width, t);
    v[i] = Silu(Multiply(w_.at(p + "v_proj.weight"), tilde));
    g[i] = Silu(Multiply(w_.at(p + "g_proj.weight"), tilde));
    r[i] = Multiply(w_.at(p + "r_proj.weight"),
                    Sinusoid(static_cast<int64_t>(i), s.d_model, s.pe_lam));
    for (double& value : r[i]) value *= t;
  }

  std::vector<int32_t> codes;
  std::vector<std::vector<double>> excess;
  for (size_t i = 0; i < length; ++i) {
    for (int64_t h = 0; h < s.n_kv_head; ++h) {
      std::vector<double> distance(static_cast<size_t>(s.n_code));
      for (int64_t c = 0; c < s.n_code; ++c) {
        double d2 = 0;
        for (int64_t e = 0; e < s.d_k; ++e) {
          const double d = k[i][static_cast<size_t>(h * s.d_k + e)] -
                           codebook[static_cast<size_t>((h * s.n_code + c) * s.d_k + e)];
          d2 += d * d;
        }
        distance[static_cast<size_t>(c)] = d2;
      }
      const auto best = std::min_element(distance.begin(), distance.end());
      codes.push_back(static_cast<int32_t>(best - distance.begin()));
      const double least = *best;
      for (double& d : distance) d -= least;
      excess.push_back(std::move(distance));
    }
  }

  const Values& u = w_.at(p + "u");
  const Values& w = w_.at(p + "w");
  std::vector<Values> output(length);
  for (size_t i = 0; i < length; ++i) {
    Values gated;
    for (int64_t h = 0; h < s.n_head; ++h) {
      const int64_t kv = h / (s.n_head / s.n_kv_head);
      Values qu(key_width), qw(key_width);
      for (size_t e = 0; e < key_width; ++e) {
        const size_t at = static_cast<size_t>(h) * key_width + e;
        qu[e] = q[i][at] + u[at] * t;
        qw[e] = q[i][at] + w[at] * t;
      }
      std::vector<double> score(i + 1);
      for (size_t j = 0; j <= i; ++j) {
        const int64_t code = codes[j * static_cast<size_t>(s.n_kv_head) + static_cast<size_t>(kv)];
        score[j] = Dot(qu.data(), codebook.data() + (kv * s.n_code + code) * s.d_k, s.d_k);
        if (static_cast<int64_t>(i - j) <= s.mem_len) {
          score[j] += Dot(qw.data(), r[i - j].data() + h * s.d_k, s.d_k);
        }
      }
      const double top = *std::max_element(score.begin(), score.end());
      double total = 0;
      Values o(static_cast<size_t>(s.d_v), 0.0);
      for (size_t j = 0; j <= i; ++j) {
        const double weight = std::exp(score[j] - top);
        total += weight;
        for (int64_t e = 0; e < s.d_v; ++e) {
          o[static_cast<size_t>(e)] += weight * v[j][static_cast<size_t>(kv * s.d_v + e)];
        }
      }
      for (int64_t e = 0; e < s.d_v; ++e) {
        gated.push_back(o[static_cast<size_t>(e)] / total *
                        g[i][static_cast<size_t>(h * s.d_v + e)]);
      }
    }
    output[i] = Multiply(w_.at(p + "o_proj.weight"), gated);
  }
  for (size_t i = 0; i < length; ++i) {
    for (size_t e = 0; e < x[i].size(); ++e) x[i][e] += output[i][e];
  }
  run.codes.push_back(std::move(codes));
  run.excess.push_back(std::move(excess));
}

OracleRun Oracle::Run(const std::vector<int32_t>& tokens) const {
  const Shape& s = shape_;
  const auto width = static_cast<size_t>(s.d_model);
  std::vector<Values> x;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const double* row = w_.at("embedding.weight").data() + static_cast<size_t>(tokens[i]) * width;
    x.emplace_back(row, row + width);
    if (!s.pe_abs) continue;
    const Values position = Sinusoid(static_cast<int64_t>(i), s.d_model, s.pe_lam);
    for (size_t e = 0; e < width; ++e) x[i][e] += w_.at("position.scale")[0] * position[e];
  }
  OracleRun run;
  for (int64_t l = 0; l < s.n_layer; ++l) Unit(l, x, run);
  const Values& head = w_.at(s.tied ? "embedding.weight" : "lm_head.weight");
  const Values& bias = w_.at("lm_head.bias");
  for (const Values& row : x) {
    Values logits = Multiply(head, s.output_norm ? Normed(row, "norm") : row);
    double top = -std::numeric_limits<double>::infinity(), total = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      logits[i] = (logits[i] + bias[i]) * s.logit_scale;
      top = std::max(top, logits[i]);
    }
    for (double l : logits) total += std::exp(l - top);
    for (double& l : logits) l -= top + std::log(total);
    run.logprobs.push_back(std::move(logits));
  }
  return run;
}

}  // namespace tvq::conformance
