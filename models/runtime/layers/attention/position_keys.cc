#include "models/runtime/layers/attention/position_keys.h"

#include <cmath>

namespace tvq {
namespace {

// sinusoid(d) for d = 0..rows-1: [sin(d / lam^(2c/D)) | cos(...)], row-major [rows, D].
std::vector<float> Sinusoids(int64_t rows, int64_t width, double lam) {
  const int64_t half = width / 2;
  std::vector<float> table(static_cast<size_t>(rows * width));
  for (int64_t c = 0; c < half; ++c) {
    const double inverse =
        std::pow(lam, -2.0 * static_cast<double>(c) / static_cast<double>(width));
    for (int64_t d = 0; d < rows; ++d) {
      const double angle = static_cast<double>(d) * inverse;
      table[static_cast<size_t>(d * width + c)] = static_cast<float>(std::sin(angle));
      table[static_cast<size_t>(d * width + half + c)] = static_cast<float>(std::cos(angle));
    }
  }
  return table;
}

}  // namespace

float KeyScale(const AttentionConfig& c) {
  return static_cast<float>(std::pow(static_cast<double>(c.d_k), -0.25));
}

QueryBiases LoadQueryBiases(const AttentionConfig& c, const std::string& prefix,
                            WeightLoader& loader) {
  const float t = KeyScale(c);
  const auto load = [&](const char* name) {
    std::vector<float> values = loader.Read(prefix + name, {c.n_head, c.d_k});
    for (float& v : values) v *= t;
    return loader.Upload(values);
  };
  QueryBiases biases;
  biases.u = load("u");
  biases.w = load("w");
  return biases;
}

PositionKeys::PositionKeys(const AttentionConfig& config, int64_t window)
    : config_(config),
      window_(window),
      sinusoids_(Sinusoids(window, config.d_model, config.pe_lam)) {}

HeadKeys PositionKeys::Load(const std::string& prefix, WeightLoader& loader) const {
  const std::vector<float> wr =
      loader.Read(prefix + "r_proj.weight", {config_.n_head * config_.d_k, config_.d_model});
  return loader.PackKeys(Turned(wr, loader), {config_.n_head, window_, config_.d_k});
}

// Projects the sinusoids, which gives [W, H*K], and reorders the result to [H, W, K].
std::vector<float> PositionKeys::Turned(const std::vector<float>& wr, WeightLoader& loader) const {
  if (!loader.status().ok()) return {};
  const int64_t heads = config_.n_head, key = config_.d_k;
  const float t = KeyScale(config_);
  const std::vector<float> flat =
      loader.Project(sinusoids_, window_, {wr.data(), heads * key, config_.d_model});
  std::vector<float> keys(flat.size());
  if (flat.empty()) return keys;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t d = 0; d < window_; ++d) {
      const float* from = flat.data() + (d * heads + h) * key;
      float* to = keys.data() + (h * window_ + d) * key;
      for (int64_t i = 0; i < key; ++i) to[i] = from[i] * t;
    }
  }
  return keys;
}

}  // namespace tvq
