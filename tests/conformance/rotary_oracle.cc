#include "tests/conformance/rotary_oracle.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

namespace tvq::conformance {
namespace {

using Values = std::vector<double>;
using Rows = std::vector<Values>;

constexpr double kEpsilon = 1e-5;
constexpr double kFactor = 8, kLow = 1, kHigh = 4, kOriginal = 64;  // of llama3's frequencies

// W x + b, W [out, in].
Values Linear(const OracleTensors& w, const std::string& name, bool bias, const Values& x) {
  const Values& matrix = w.at(name + ".weight");
  Values y(matrix.size() / x.size(), 0.0);
  for (size_t o = 0; o < y.size(); ++o) {
    for (size_t i = 0; i < x.size(); ++i) y[o] += matrix[o * x.size() + i] * x[i];
    if (bias) y[o] += w.at(name + ".bias")[o];
  }
  return y;
}

// x / sqrt(mean(x^2) + epsilon) * gain, over each run as wide as the gain.
Values Rms(Values x, const Values& gain) {
  for (size_t at = 0; at < x.size(); at += gain.size()) {
    double squares = 0;
    for (size_t i = 0; i < gain.size(); ++i) squares += x[at + i] * x[at + i];
    const double rms = std::sqrt(squares / static_cast<double>(gain.size()) + kEpsilon);
    for (size_t i = 0; i < gain.size(); ++i) x[at + i] *= gain[i] / rms;
  }
  return x;
}

double Frequency(const Shape& s, int64_t pair, int64_t turned) {
  const double frequency =
      std::pow(s.pe_lam, -2.0 * static_cast<double>(pair) / static_cast<double>(turned));
  if (!s.llama3) return frequency;
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength > kOriginal / kLow) return frequency / kFactor;
  if (wavelength < kOriginal / kHigh) return frequency;
  const double smooth = (kOriginal / wavelength - kLow) / (kHigh - kLow);
  return (1 - smooth) * frequency / kFactor + smooth * frequency;
}

// Every head of x, by its position.
void Turn(const Shape& s, size_t position, Values& x) {
  const int64_t turned = s.turned(), half = turned / 2;
  for (auto head = x.begin(); head != x.end(); head += s.d_k) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * Frequency(s, i, turned);
      const double first = head[i], second = head[half + i];
      head[i] = first * std::cos(angle) - second * std::sin(angle);
      head[half + i] = first * std::sin(angle) + second * std::cos(angle);
    }
  }
}

void Attend(const Shape& s, const OracleTensors& w, const std::string& p, Rows& x) {
  Rows q, k, v;
  for (size_t i = 0; i < x.size(); ++i) {
    const Values normed = Rms(x[i], w.at(p + "input_layernorm.weight"));
    q.push_back(Linear(w, p + "self_attn.q_proj", s.biases(), normed));
    k.push_back(Linear(w, p + "self_attn.k_proj", s.biases(), normed));
    v.push_back(Linear(w, p + "self_attn.v_proj", s.biases(), normed));
    if (s.head_norms()) {
      q.back() = Rms(q.back(), w.at(p + "self_attn.q_norm.weight"));
      k.back() = Rms(k.back(), w.at(p + "self_attn.k_norm.weight"));
    }
    Turn(s, i, q.back());
    Turn(s, i, k.back());
  }
  for (size_t i = 0; i < x.size(); ++i) {
    Values out;
    for (int64_t h = 0; h < s.n_head; ++h) {
      const int64_t kv = h / (s.n_head / s.n_kv_head) * s.d_k;
      Values weight(i + 1, 0.0);
      for (size_t j = 0; j <= i; ++j) {
        for (int64_t e = 0; e < s.d_k; ++e) {
          weight[j] += q[i].data()[h * s.d_k + e] * k[j].data()[kv + e];
        }
        weight[j] /= std::sqrt(static_cast<double>(s.d_k));
      }
      const double top = *std::ranges::max_element(weight);
      double total = 0;
      for (double& score : weight) total += score = std::exp(score - top);
      for (int64_t e = 0; e < s.d_k; ++e) {
        double sum = 0;
        for (size_t j = 0; j <= i; ++j) sum += weight[j] * v[j].data()[kv + e];
        out.push_back(sum / total);
      }
    }
    const Values added = Linear(w, p + "self_attn.o_proj", s.output_bias(), out);
    for (size_t e = 0; e < added.size(); ++e) x[i][e] += added[e];
  }
}

void Mlp(const Shape& s, const OracleTensors& w, const std::string& p, Values& x) {
  const Values normed = Rms(x, w.at(p + "post_attention_layernorm.weight"));
  const Values gate = Linear(w, p + "mlp.gate_proj", s.mlp_biases(), normed);
  Values up = Linear(w, p + "mlp.up_proj", s.mlp_biases(), normed);
  for (size_t i = 0; i < up.size(); ++i) up[i] *= gate[i] / (1 + std::exp(-gate[i]));
  const Values added = Linear(w, p + "mlp.down_proj", s.mlp_biases(), up);
  for (size_t e = 0; e < added.size(); ++e) x[e] += added[e];
}

}  // namespace

std::string RotaryJson(const Shape& s) {
  nlohmann::json rope = {{"rope_theta", s.pe_lam}, {"rope_type", s.llama3 ? "llama3" : "default"}};
  if (s.llama3) {
    rope.update({{"factor", kFactor},
                 {"low_freq_factor", kLow},
                 {"high_freq_factor", kHigh},
                 {"original_max_position_embeddings", kOriginal}});
  }
  if (s.rotary_part != 1) rope["partial_rotary_factor"] = s.rotary_part;
  nlohmann::json json = {{"model_type", s.kind},
                         {"vocab_size", s.vocab},
                         {"hidden_size", s.d_model},
                         {"intermediate_size", s.d_ff},
                         {"num_hidden_layers", s.n_layer},
                         {"num_attention_heads", s.n_head},
                         {"num_key_value_heads", s.n_kv_head},
                         {"head_dim", s.d_k},
                         {"max_position_embeddings", int64_t{1} << 24},
                         {"rms_norm_eps", kEpsilon},
                         {"rope_parameters", rope},
                         {"tie_word_embeddings", s.tied},
                         {"prefill_chunk", s.prefill_chunk},
                         {"tokenizer", {{"type", "bytes"}}}};
  if (s.output_bias()) json["attention_bias"] = true;
  if (s.mlp_biases()) json["mlp_bias"] = true;
  return json.dump();
}

void ForEachRotaryTensor(
    const Shape& s,
    const std::function<void(const std::string&, std::vector<int64_t>, Rounded)>& load) {
  const int64_t queries = s.n_head * s.d_k, keys = s.n_kv_head * s.d_k;
  const auto linear = [&](const std::string& name, int64_t out, int64_t in, bool bias) {
    load(name + ".weight", {out, in}, Rounded::kMatrix);
    if (bias) load(name + ".bias", {out}, Rounded::kNot);
  };
  load("embed_tokens.weight", {s.vocab, s.d_model}, Rounded::kVocabulary);
  for (int64_t l = 0; l < s.n_layer; ++l) {
    const std::string p = "layers." + std::to_string(l) + ".", attention = p + "self_attn.";
    load(p + "input_layernorm.weight", {s.d_model}, Rounded::kNot);
    load(p + "post_attention_layernorm.weight", {s.d_model}, Rounded::kNot);
    linear(attention + "q_proj", queries, s.d_model, s.biases());
    linear(attention + "k_proj", keys, s.d_model, s.biases());
    linear(attention + "v_proj", keys, s.d_model, s.biases());
    linear(attention + "o_proj", s.d_model, queries, s.output_bias());
    if (s.head_norms()) {
      load(attention + "q_norm.weight", {s.d_k}, Rounded::kNot);
      load(attention + "k_norm.weight", {s.d_k}, Rounded::kNot);
    }
    linear(p + "mlp.gate_proj", s.d_ff, s.d_model, s.mlp_biases());
    linear(p + "mlp.up_proj", s.d_ff, s.d_model, s.mlp_biases());
    linear(p + "mlp.down_proj", s.d_model, s.d_ff, s.mlp_biases());
  }
  load("norm.weight", {s.d_model}, Rounded::kNot);
  if (!s.tied) load("lm_head.weight", {s.vocab, s.d_model}, Rounded::kVocabulary);
}

std::vector<std::vector<double>> RotaryLogits(const Shape& s, const OracleTensors& w,
                                              const std::vector<int32_t>& tokens) {
  const Values& embedding = w.at("embed_tokens.weight");
  Rows x;
  for (const int32_t token : tokens) {
    const double* row = embedding.data() + token * s.d_model;
    x.emplace_back(row, row + s.d_model);
  }
  for (int64_t l = 0; l < s.n_layer; ++l) {
    const std::string p = "layers." + std::to_string(l) + ".";
    Attend(s, w, p, x);
    for (Values& row : x) Mlp(s, w, p, row);
  }
  const std::string head = s.tied ? "embed_tokens" : "lm_head";
  for (Values& row : x) row = Linear(w, head, false, Rms(row, w.at("norm.weight")));
  return x;
}

}  // namespace tvq::conformance
