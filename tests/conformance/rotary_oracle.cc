#include "tests/conformance/rotary_oracle.h"

#include <algorithm>
#include <cmath>
#include <complex>
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

// Every head of x, each pair of numbers multiplied by by(pair) as complex numbers are.
template <typename By>
Values Multiplied(const Shape& s, Values x, const By& by) {
  const int64_t half = s.turned() / 2;
  for (int64_t i = 0; i < half; ++i) {
    const std::complex<double> factor = by(i);
    for (auto head = x.begin(); head != x.end(); head += s.d_k) {
      const std::complex<double> product = std::complex(head[i], head[half + i]) * factor;
      head[i] = product.real();
      head[half + i] = product.imag();
    }
  }
  return x;
}

// The same, turned by a distance.
Values Turned(const Shape& s, size_t distance, Values x) {
  return Multiplied(s, std::move(x), [&](int64_t i) {
    return std::polar(1.0, static_cast<double>(distance) * Frequency(s, i, s.turned()));
  });
}

// By the mean of turns from the distance `ring` on up to `position`, or to what was trained.
Values MeanTurned(const Shape& s, int64_t ring, int64_t position, Values x) {
  const int64_t last = std::max(ring, std::min(position, s.trained - 1));
  return Multiplied(s, std::move(x), [&](int64_t i) {
    std::complex<double> sum = 0;
    double weights = 0;
    for (int64_t d = ring; d <= last; ++d) {
      const double distance = static_cast<double>(d);
      sum += std::polar(1 / distance, distance * Frequency(s, i, s.turned()));
      weights += 1 / distance;
    }
    return sum / weights;
  });
}

// What attention is given, heads side by side, before positions turn them.
struct Projected {
  Rows q, k, v;
};

Projected Project(const Shape& s, const OracleTensors& w, const std::string& p, const Rows& x) {
  Projected in;
  for (const Values& row : x) {
    const Values normed = Rms(row, w.at(p + "input_layernorm.weight"));
    in.q.push_back(Linear(w, p + "self_attn.q_proj", s.biases(), normed));
    in.k.push_back(Linear(w, p + "self_attn.k_proj", s.biases(), normed));
    in.v.push_back(Linear(w, p + "self_attn.v_proj", s.biases(), normed));
    if (!s.head_norms()) continue;
    in.q.back() = Rms(in.q.back(), w.at(p + "self_attn.q_norm.weight"));
    in.k.back() = Rms(in.k.back(), w.at(p + "self_attn.k_norm.weight"));
  }
  return in;
}

double DotProduct(const double* a, const double* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// x [K] times a matrix [K, K].
Values Times(const double* x, const double* matrix, int64_t key) {
  Values y(static_cast<size_t>(key), 0.0);
  for (int64_t i = 0; i < key; ++i) {
    for (int64_t j = 0; j < key; ++j) y[static_cast<size_t>(j)] += x[i] * matrix[i * key + j];
  }
  return y;
}

// score(h, i, j) of query head h at position i and a key at position j, without K^(-1/2).
using Score = std::function<double(int64_t, size_t, size_t)>;

Score RotaryScores(const Shape& s, const Projected& in) {
  Rows q, k;
  for (size_t i = 0; i < in.q.size(); ++i) {
    q.push_back(Turned(s, i, in.q[i]));
    k.push_back(Turned(s, i, in.k[i]));
  }
  return [=](int64_t h, size_t i, size_t j) {
    const int64_t kv = h / (s.n_head / s.n_kv_head);
    return DotProduct(q[i].data() + h * s.d_k, k[j].data() + kv * s.d_k, s.d_k);
  };
}

bool Grows(const Shape& s, int64_t layer, int64_t kv) { return s.growing && layer == 0 && kv == 0; }

int64_t RingOf(const Shape& s, int64_t layer, int64_t kv) {
  return layer == s.n_layer - 1 && kv == s.n_kv_head - 1 ? s.wide : s.ring;
}

// Codes of a key/value head's keys, of position 0 the sink's, and how much farther others are.
std::vector<int32_t> Assign(const Shape& s, const OracleTensors& w, const std::string& name,
                            int64_t kv, const Rows& k, std::vector<Values>& excess) {
  const double* words = w.at(name + "assign").data() + kv * s.n_code * s.d_k;
  const double* metric = w.at(name + "metric").data() + kv * s.d_k * s.d_k;
  std::vector<int32_t> codes;
  for (const Values& keys : k) {
    Values distances;
    for (int64_t c = 0; c < s.n_code; ++c) {
      Values apart(keys.begin() + kv * s.d_k, keys.begin() + (kv + 1) * s.d_k);
      for (int64_t e = 0; e < s.d_k; ++e) apart[static_cast<size_t>(e)] -= words[c * s.d_k + e];
      const Values seen = Times(apart.data(), metric, s.d_k);
      distances.push_back(DotProduct(seen.data(), seen.data(), s.d_k));
    }
    const auto best = std::ranges::min_element(distances);
    codes.push_back(codes.empty() ? static_cast<int32_t>(s.n_code)
                                  : static_cast<int32_t>(best - distances.begin()));
    const double least = *best;
    for (double& distance : distances) distance -= least;
    excess.push_back(std::move(distances));
  }
  return codes;
}

// Exact within a head's ring, by the key's code beyond it, or, of a head that keeps all keys,
// behind the trained context by the mean.
Score RingScores(const Shape& s, const OracleTensors& w, const std::string& p, int64_t layer,
                 const Projected& in, OracleRun& run) {
  const std::string name = p + "self_attn.conversion.";
  const size_t tokens = in.k.size();
  const auto kv_heads = static_cast<size_t>(s.n_kv_head);
  std::vector<std::vector<int32_t>> codes(kv_heads);  // [G][T]
  std::vector<std::vector<Values>> excess(kv_heads);
  for (size_t kv = 0; kv < kv_heads; ++kv) {
    codes[kv] = Assign(s, w, name, static_cast<int64_t>(kv), in.k, excess[kv]);
  }
  // Groups of heads, the shorter rings first.
  for (const int64_t ring : {s.ring, s.wide}) {
    std::vector<int32_t> of_group;
    std::vector<Values> excess_of_group;
    for (size_t t = 0; t < tokens; ++t) {
      for (int64_t kv = 0; kv < s.n_kv_head; ++kv) {
        if (RingOf(s, layer, kv) != ring || Grows(s, layer, kv)) continue;
        of_group.push_back(codes[static_cast<size_t>(kv)][t]);
        excess_of_group.push_back(excess[static_cast<size_t>(kv)][t]);
      }
    }
    if (of_group.empty()) continue;
    run.codes.push_back(std::move(of_group));
    run.excess.push_back(std::move(excess_of_group));
  }
  const Score near = RotaryScores(s, in);
  return [=, &s, &w](int64_t h, size_t i, size_t j) {
    const int64_t kv = h / (s.n_head / s.n_kv_head), ring = RingOf(s, layer, kv);
    const bool grows = Grows(s, layer, kv), trained = i < static_cast<size_t>(s.trained);
    if (i - j < static_cast<size_t>(ring) || (grows && trained)) return near(h, i, j);
    const auto head = [&](const Values& x, int64_t of) {
      return Values(x.begin() + of * s.d_k, x.begin() + (of + 1) * s.d_k);
    };
    const Values q = head(in.q[i], h);
    if (grows) {
      const Values far = MeanTurned(s, ring, static_cast<int64_t>(i), q);
      return DotProduct(far.data(), head(in.k[j], kv).data(), s.d_k);
    }
    if (j == 0) {
      const Values turned = Turned(s, static_cast<size_t>(ring), q);
      return DotProduct(turned.data(), head(in.k[0], kv).data(), s.d_k);
    }
    const Values far = MeanTurned(s, ring, static_cast<int64_t>(i), q);
    const Values mapped = Times(far.data(), w.at(name + "map").data() + h * s.d_k * s.d_k, s.d_k);
    const int64_t code = codes[static_cast<size_t>(kv)][j];
    const double* word = w.at(name + "score").data() + (kv * s.n_code + code) * s.d_k;
    return DotProduct(mapped.data(), word, s.d_k) +
           w.at(name + "bias")[static_cast<size_t>(h)] * std::sqrt(static_cast<double>(s.d_k));
  };
}

void Attend(const Shape& s, const OracleTensors& w, int64_t layer, const std::string& p, Rows& x,
            OracleRun& run) {
  const Projected in = Project(s, w, p, x);
  const Score scores = s.converted() ? RingScores(s, w, p, layer, in, run) : RotaryScores(s, in);
  const Rows& v = in.v;
  for (size_t i = 0; i < x.size(); ++i) {
    Values out;
    for (int64_t h = 0; h < s.n_head; ++h) {
      const int64_t kv = h / (s.n_head / s.n_kv_head) * s.d_k;
      Values weight(i + 1, 0.0);
      for (size_t j = 0; j <= i; ++j) {
        weight[j] = scores(h, i, j) / std::sqrt(static_cast<double>(s.d_k));
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
  if (s.converted()) {
    json["conversion"] = {
        {"version", 1},
        {"codes", s.n_code},
        {"trained_context", s.trained},
        {"ring", s.ring},
        {"wide", {{{"ring", s.wide}, {"heads", {{s.n_layer - 1, s.n_kv_head - 1}}}}}}};
    if (s.growing) json["conversion"]["grow"] = {{0, 0}};
  }
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
    if (s.converted()) {
      const std::string conversion = attention + "conversion.";
      load(conversion + "assign", {s.n_kv_head, s.n_code, s.d_k}, Rounded::kNot);
      load(conversion + "metric", {s.n_kv_head, s.d_k, s.d_k}, Rounded::kNot);
      load(conversion + "score", {s.n_kv_head, s.n_code, s.d_k}, Rounded::kNot);
      load(conversion + "map", {s.n_head, s.d_k, s.d_k}, Rounded::kNot);
      load(conversion + "bias", {s.n_head}, Rounded::kNot);
    }
    linear(p + "mlp.gate_proj", s.d_ff, s.d_model, s.mlp_biases());
    linear(p + "mlp.up_proj", s.d_ff, s.d_model, s.mlp_biases());
    linear(p + "mlp.down_proj", s.d_model, s.d_ff, s.mlp_biases());
  }
  load("norm.weight", {s.d_model}, Rounded::kNot);
  if (!s.tied) load("lm_head.weight", {s.vocab, s.d_model}, Rounded::kVocabulary);
}

std::vector<std::vector<double>> RotaryLogits(const Shape& s, const OracleTensors& w,
                                              const std::vector<int32_t>& tokens, OracleRun& run) {
  const Values& embedding = w.at("embed_tokens.weight");
  Rows x;
  for (const int32_t token : tokens) {
    const double* row = embedding.data() + token * s.d_model;
    x.emplace_back(row, row + s.d_model);
  }
  for (int64_t l = 0; l < s.n_layer; ++l) {
    const std::string p = "layers." + std::to_string(l) + ".";
    Attend(s, w, l, p, x, run);
    for (Values& row : x) Mlp(s, w, p, row);
  }
  const std::string head = s.tied ? "embed_tokens" : "lm_head";
  for (Values& row : x) row = Linear(w, head, false, Rms(row, w.at("norm.weight")));
  return x;
}

}  // namespace tvq::conformance
