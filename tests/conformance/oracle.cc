#include "tests/conformance/oracle.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/conformance/rotary_oracle.h"

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

// (x - mean(x)) / sqrt(mean((x - mean(x))^2) + 1e-5)
Values Standardized(Values x) {
  const auto n = static_cast<double>(x.size());
  double mean = 0, square = 0;
  for (const double v : x) mean += v / n;
  for (const double v : x) square += (v - mean) * (v - mean) / n;
  for (double& v : x) v = (v - mean) / std::sqrt(square + 1e-5);
  return x;
}

Values Plus(Values x, const Values& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  return x;
}

// The average, by weight, of width values of each row from `first` on.
void AppendAverage(const std::vector<double>& weight, const std::vector<Values>& rows,
                   int64_t first, int64_t width, Values& out) {
  double total = 0;
  for (const double w : weight) total += w;
  for (int64_t e = first; e < first + width; ++e) {
    double sum = 0;
    for (size_t j = 0; j < weight.size(); ++j) sum += weight[j] * rows[j][static_cast<size_t>(e)];
    out.push_back(sum / total);
  }
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

// Group by group, 32 of a row, to multiples of a scale from -8 to 7: of the bfloat16 scales that
// make the value of the largest magnitude -6.5, -6.75, ..., -9 the one with the least squared
// error.
void RoundToInt4(Values& matrix, size_t width) {
  for (size_t row = 0; row < matrix.size(); row += width) {
    for (size_t first = row; first < row + width; first += 32) {
      const size_t end = std::min(first + 32, row + width);
      const Values group(matrix.begin() + static_cast<ptrdiff_t>(first),
                         matrix.begin() + static_cast<ptrdiff_t>(end));
      const double largest = *std::max_element(
          group.begin(), group.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
      double least = std::numeric_limits<double>::infinity();
      for (double t = 6.5; t <= 9 && largest != 0; t += 0.25) {
        const double scale = ToBFloat16(static_cast<float>(-largest / t));
        Values rounded;
        double error = 0;
        for (const double w : group) {
          rounded.push_back(std::clamp(std::nearbyint(w / scale), -8.0, 7.0) * scale);
          error += (w - rounded.back()) * (w - rounded.back());
        }
        if (error >= least) continue;
        least = error;
        std::copy(rounded.begin(), rounded.end(), matrix.begin() + static_cast<ptrdiff_t>(first));
      }
    }
  }
}

void AppendLogprobs(Values logits, OracleRun& run) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (const double l : logits) total += std::exp(l - top);
  for (double& l : logits) l -= top + std::log(total);
  run.logprobs.push_back(std::move(logits));
}

double Dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

std::string Shape::Json() const {
  if (rotary()) return RotaryJson(*this);
  nlohmann::json json = {{"model_type", kind},
                         {"block", block},
                         {"vocab_size", vocab},
                         {"d_model", d_model},
                         {"d_k", d_k},
                         {"d_v", d_v},
                         {"n_layer", n_layer},
                         {"n_head", n_head},
                         {"n_kv_head", n_kv_head},
                         {"block_len", block_len},
                         {"prefill_chunk", prefill_chunk},
                         {"pe_abs", pe_abs},
                         {"pe_lam", pe_lam},
                         {"tie_word_embeddings", tied},
                         {"output_norm", output_norm},
                         {"logit_scale", logit_scale},
                         {"tokenizer", {{"type", "bytes"}}}};
  if (vq() || soft()) json["n_code"] = n_code;
  if (soft()) json["sigma"] = sigma;
  if (performer()) json["n_feature"] = n_feature;
  if (!of_features()) json["mem_len"] = mem_len;
  if (position_bias != "relative") json["position_bias"] = position_bias;
  if (standard()) json["d_ff"] = d_ff;
  return json.dump();
}

Oracle::Oracle(Shape shape, WeightSource& weights, DType dtype) : shape_(std::move(shape)) {
  // Matrices are rounded to `matrix`.
  auto load = [&](const std::string& name, std::vector<int64_t> dims,
                  DType matrix = DType::kFloat32) {
    const std::vector<float> values = ToFloat32(*weights.Get(name, dims)).value();
    Values& stored = w_[name];
    stored.assign(values.begin(), values.end());
    if (matrix == DType::kBFloat16) {
      std::transform(stored.begin(), stored.end(), stored.begin(), ToBFloat16);
    }
    if (matrix == DType::kInt8) RoundToInt8(stored, static_cast<size_t>(dims[1]));
    if (matrix == DType::kInt4) RoundToInt4(stored, static_cast<size_t>(dims[1]));
  };
  const DType vocabulary = dtype == DType::kInt4 ? DType::kInt8 : dtype;
  const Shape& s = shape_;
  if (s.rotary()) {
    ForEachRotaryTensor(s, [&](const std::string& name, std::vector<int64_t> dims, Rounded as) {
      load(name, std::move(dims),
           as == Rounded::kMatrix       ? dtype
           : as == Rounded::kVocabulary ? vocabulary
                                        : DType::kFloat32);
    });
    return;
  }
  load("embedding.weight", {s.vocab, s.d_model}, vocabulary);
  if (s.pe_abs) load("position.scale", {1});
  for (int64_t l = 0; l < s.n_layer; ++l) {
    const std::string p = "layers." + std::to_string(l) + ".";
    load(p + "norm.weight", {s.d_model});
    load(p + "norm.bias", {s.d_model});
    load(p + "q_proj.weight", {s.n_head * s.d_k, s.d_model}, dtype);
    load(p + "k_proj.weight", {s.n_kv_head * s.d_k, s.d_model}, dtype);
    load(p + "v_proj.weight", {s.n_kv_head * s.d_v, s.d_model}, dtype);
    load(p + "o_proj.weight", {s.d_model, s.n_head * s.d_v}, dtype);
    if (s.position_bias == "toeplitz") load(p + "distance_bias", {s.n_head, s.mem_len + 1});
    if (!s.of_features() && s.position_bias == "relative") {
      load(p + "r_proj.weight", {s.n_head * s.d_k, s.d_model});
      load(p + "u", {s.n_head, s.d_k});
      load(p + "w", {s.n_head, s.d_k});
    }
    if (s.performer()) load(p + "features", {s.n_kv_head, s.n_feature, s.d_k});
    if (s.vq() || s.soft()) {
      load(p + "codebook.sum", {s.n_kv_head, s.n_code, s.d_k});
      load(p + "codebook.count", {s.n_kv_head, s.n_code});
    }
    if (!s.standard()) load(p + "g_proj.weight", {s.n_head * s.d_v, s.d_model}, dtype);
    if (s.standard()) {
      load(p + "mlp_norm.weight", {s.d_model});
      load(p + "mlp_norm.bias", {s.d_model});
      load(p + "mlp_up.weight", {s.d_ff, s.d_model}, dtype);
      load(p + "mlp_up.bias", {s.d_ff});
      load(p + "mlp_down.weight", {s.d_model, s.d_ff}, dtype);
      load(p + "mlp_down.bias", {s.d_model});
    }
  }
  if (s.output_norm) {
    load("norm.weight", {s.d_model});
    load("norm.bias", {s.d_model});
  }
  if (!s.tied) load("lm_head.weight", {s.vocab, s.d_model}, vocabulary);
  load("lm_head.bias", {s.vocab});
}

Values Oracle::Normed(const Values& x, const std::string& name) const {
  Values y = shape_.standard() ? Standardized(x) : Rms(x, x.size(), 1.0);
  const Values& gain = w_.at(name + ".weight");
  const Values& bias = w_.at(name + ".bias");
  for (size_t i = 0; i < y.size(); ++i) y[i] = y[i] * gain[i] + bias[i];
  return y;
}

Oracle::Projected Oracle::Project(const std::string& p, const Rows& tilde) const {
  const auto key_width = static_cast<size_t>(shape_.d_k);
  const double t = std::pow(static_cast<double>(shape_.d_k), -0.25);
  const auto normed = [&](Values x) {
    return shape_.linear() ? x : Rms(std::move(x), key_width, t);
  };
  Projected in;
  for (const Values& x : tilde) {
    in.q.push_back(normed(Multiply(w_.at(p + "q_proj.weight"), x)));
    in.k.push_back(normed(Multiply(w_.at(p + "k_proj.weight"), x)));
    const Values v = Multiply(w_.at(p + "v_proj.weight"), x);
    in.v.push_back(shape_.standard() ? v : Silu(v));
  }
  return in;
}

Values Oracle::Codebook(const std::string& p) const {
  const auto width = static_cast<size_t>(shape_.d_k);
  Values codebook = w_.at(p + "codebook.sum");
  const Values& count = w_.at(p + "codebook.count");
  for (size_t i = 0; i < codebook.size(); ++i) codebook[i] /= std::max(count[i / width], 0.01);
  return codebook;
}

void Oracle::Quantize(const std::string& p, Rows& keys, OracleRun& run) const {
  const Shape& s = shape_;
  const Values codebook = Codebook(p);
  std::vector<int32_t> codes;
  std::vector<std::vector<double>> excess;
  for (Values& key : keys) {
    for (int64_t h = 0; h < s.n_kv_head; ++h) {
      std::vector<double> distance(static_cast<size_t>(s.n_code));
      for (int64_t c = 0; c < s.n_code; ++c) {
        double d2 = 0;
        for (int64_t e = 0; e < s.d_k; ++e) {
          const double d = key[static_cast<size_t>(h * s.d_k + e)] -
                           codebook[static_cast<size_t>((h * s.n_code + c) * s.d_k + e)];
          d2 += d * d;
        }
        distance[static_cast<size_t>(c)] = d2;
      }
      const auto best = std::min_element(distance.begin(), distance.end());
      codes.push_back(static_cast<int32_t>(best - distance.begin()));
      std::copy_n(codebook.begin() + (h * s.n_code + codes.back()) * s.d_k, s.d_k,
                  key.begin() + h * s.d_k);
      const double least = *best;
      for (double& d : distance) d -= least;
      excess.push_back(std::move(distance));
    }
  }
  run.codes.push_back(std::move(codes));
  run.excess.push_back(std::move(excess));
}

Oracle::Rows Oracle::PositionKeys(const std::string& p, size_t count) const {
  const Shape& s = shape_;
  const double t = std::pow(static_cast<double>(s.d_k), -0.25);
  Rows r;
  for (size_t d = 0; d < count; ++d) {
    r.push_back(Multiply(w_.at(p + "r_proj.weight"),
                         Sinusoid(static_cast<int64_t>(d), s.d_model, s.pe_lam)));
    for (double& value : r.back()) value *= t;
  }
  return r;
}

double Oracle::Score(const std::string& p, int64_t h, const double* q, const double* k,
                     size_t distance, const Rows& position_keys) const {
  const Shape& s = shape_;
  const auto reach = static_cast<size_t>(s.mem_len);
  if (s.position_bias == "toeplitz") {
    const auto at = static_cast<size_t>(h) * (reach + 1) + distance;
    return Dot(q, k, s.d_k) + (distance <= reach ? w_.at(p + "distance_bias")[at] : 0);
  }
  if (s.position_bias == "rerope") {
    const int64_t half = s.d_k / 2;
    double score = 0;
    for (int64_t c = 0; c < half; ++c) {
      const double part = 2.0 * static_cast<double>(c) / static_cast<double>(s.d_k);
      const double angle =
          static_cast<double>(std::min(distance, reach)) / std::pow(s.pe_lam, part);
      score += q[c] * (std::cos(angle) * k[c] - std::sin(angle) * k[half + c]) +
               q[half + c] * (std::sin(angle) * k[c] + std::cos(angle) * k[half + c]);
    }
    return score;
  }
  const double t = std::pow(static_cast<double>(s.d_k), -0.25);
  const Values& u = w_.at(p + "u");
  const Values& w = w_.at(p + "w");
  double score = 0;
  for (int64_t e = 0; e < s.d_k; ++e) {
    const auto at = static_cast<size_t>(h * s.d_k + e);
    score += (q[e] + u[at] * t) * k[e];
    if (distance <= reach) score += (q[e] + w[at] * t) * position_keys[distance][at];
  }
  return score;
}

Oracle::Rows Oracle::SoftmaxAttention(const std::string& p, const Projected& in) const {
  const Shape& s = shape_;
  const Rows r = s.position_bias == "relative" ? PositionKeys(p, in.q.size()) : Rows();
  Rows output(in.q.size());
  for (size_t i = 0; i < in.q.size(); ++i) {
    for (int64_t h = 0; h < s.n_head; ++h) {
      const int64_t kv = h / (s.n_head / s.n_kv_head);
      std::vector<double> weight(i + 1);
      for (size_t j = 0; j <= i; ++j) {
        weight[j] = Score(p, h, in.q[i].data() + h * s.d_k, in.k[j].data() + kv * s.d_k, i - j, r);
      }
      const double top = *std::max_element(weight.begin(), weight.end());
      for (double& score : weight) score = std::exp(score - top);
      AppendAverage(weight, in.v, kv * s.d_v, s.d_v, output[i]);
    }
  }
  return output;
}

Values Oracle::Features(const std::string& p, const double* x, int64_t kv, bool of_key) const {
  const Shape& s = shape_;
  Values f;
  if (s.linear()) {
    for (int64_t e = 0; e < s.d_k; ++e) f.push_back(x[e] > 0 ? x[e] + 1 : std::exp(x[e]));
    return f;
  }
  const Values table = s.soft() ? Codebook(p) : w_.at(p + "features");
  const int64_t rows = s.soft() ? s.n_code : s.n_feature;
  double total = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const double* row = table.data() + (kv * rows + r) * s.d_k;
    const double dot = Dot(x, row, s.d_k), square = Dot(x, x, s.d_k);
    const double distance = square - 2 * dot + Dot(row, row, s.d_k);
    f.push_back(!of_key    ? std::exp(dot)
                : s.soft() ? std::exp(-distance / (2 * s.sigma * s.sigma))
                           : std::exp(dot - square / 2));
    total += f.back();
  }
  for (double& value : f) value /= of_key && s.soft() ? total : 1;
  return f;
}

Oracle::Rows Oracle::FeatureAttention(const std::string& p, const Projected& in) const {
  const Shape& s = shape_;
  Rows output(in.q.size());
  std::vector<Rows> keys(static_cast<size_t>(s.n_kv_head));  // their features
  for (size_t i = 0; i < in.q.size(); ++i) {
    for (int64_t g = 0; g < s.n_kv_head; ++g) {
      keys[static_cast<size_t>(g)].push_back(Features(p, in.k[i].data() + g * s.d_k, g, true));
    }
    for (int64_t h = 0; h < s.n_head; ++h) {
      const int64_t kv = h / (s.n_head / s.n_kv_head);
      const Values query = Features(p, in.q[i].data() + h * s.d_k, kv, false);
      std::vector<double> weight;
      for (const Values& key : keys[static_cast<size_t>(kv)]) {
        weight.push_back(Dot(query.data(), key.data(), static_cast<int64_t>(key.size())));
      }
      AppendAverage(weight, in.v, kv * s.d_v, s.d_v, output[i]);
    }
  }
  return output;
}

Values Oracle::Mlp(const std::string& p, const Values& y) const {
  Values hidden = Plus(Multiply(w_.at(p + "mlp_up.weight"), Normed(y, p + "mlp_norm")),
                       w_.at(p + "mlp_up.bias"));
  for (double& x : hidden) {
    const double pi = std::acos(-1.0);
    x *= 0.5 * (1 + std::tanh(std::sqrt(2 / pi) * (x + 0.044715 * x * x * x)));
  }
  return Plus(Multiply(w_.at(p + "mlp_down.weight"), hidden), w_.at(p + "mlp_down.bias"));
}

void Oracle::Layer(int64_t layer, Rows& x, OracleRun& run) const {
  const std::string p = "layers." + std::to_string(layer) + ".";
  Rows tilde;
  for (const Values& row : x) tilde.push_back(Normed(row, p + "norm"));
  Projected in = Project(p, tilde);
  if (shape_.vq()) Quantize(p, in.k, run);
  Rows o = shape_.of_features() ? FeatureAttention(p, in) : SoftmaxAttention(p, in);
  for (size_t i = 0; i < x.size(); ++i) {
    if (!shape_.standard()) {
      const Values g = Silu(Multiply(w_.at(p + "g_proj.weight"), tilde[i]));
      for (size_t e = 0; e < g.size(); ++e) o[i][e] *= g[e];
    }
    x[i] = Plus(x[i], Multiply(w_.at(p + "o_proj.weight"), o[i]));
    if (shape_.standard()) x[i] = Plus(x[i], Mlp(p, x[i]));
  }
}

OracleRun Oracle::Run(const std::vector<int32_t>& tokens) const {
  const Shape& s = shape_;
  OracleRun run;
  if (s.rotary()) {
    for (Values& logits : RotaryLogits(s, w_, tokens, run)) AppendLogprobs(std::move(logits), run);
    return run;
  }
  const auto width = static_cast<size_t>(s.d_model);
  std::vector<Values> x;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const double* row = w_.at("embedding.weight").data() + static_cast<size_t>(tokens[i]) * width;
    x.emplace_back(row, row + width);
    if (!s.pe_abs) continue;
    const Values position = Sinusoid(static_cast<int64_t>(i), s.d_model, s.pe_lam);
    for (size_t e = 0; e < width; ++e) x[i][e] += w_.at("position.scale")[0] * position[e];
  }
  for (int64_t l = 0; l < s.n_layer; ++l) Layer(l, x, run);
  const Values& head = w_.at(s.tied ? "embedding.weight" : "lm_head.weight");
  const Values& bias = w_.at("lm_head.bias");
  for (const Values& row : x) {
    Values logits = Multiply(head, s.output_norm ? Normed(row, "norm") : row);
    for (size_t i = 0; i < logits.size(); ++i) logits[i] = (logits[i] + bias[i]) * s.logit_scale;
    AppendLogprobs(std::move(logits), run);
  }
  return run;
}

}  // namespace tvq::conformance
