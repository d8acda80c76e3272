#include "models/runtime/layers/attention/vq/turned_codes.h"

#include <cmath>

namespace tvq {
namespace {

// The angle by which entries c and K/2 + c are turned at a distance: d / lam^(2c/K).
double Angle(const AttentionConfig& config, int64_t distance, int64_t c) {
  const double part = 2.0 * static_cast<double>(c) / static_cast<double>(config.d_k);
  return static_cast<double>(distance) * std::pow(config.pe_lam, -part);
}

// The table `turns` of kernels/ops/attention/turned_scores.h.
std::vector<float> Turns(const AttentionConfig& config) {
  const int64_t width = config.d_k, half = width / 2;
  std::vector<float> turns(static_cast<size_t>(config.window() * width));
  for (int64_t d = 0; d < config.window(); ++d) {
    for (int64_t c = 0; c < half; ++c) {
      const double here = Angle(config, d, c), far = Angle(config, config.mem_len, c);
      float* row = turns.data() + d * width;
      row[c] = static_cast<float>(std::cos(here) - std::cos(far));
      row[half + c] = static_cast<float>(std::sin(here) - std::sin(far));
    }
  }
  return turns;
}

// Turns every key by Rot(M).
std::vector<float> FarKeys(const AttentionConfig& config, std::vector<float> keys) {
  const auto width = static_cast<size_t>(config.d_k), half = width / 2;
  for (size_t c = 0; c < half; ++c) {
    const double angle = Angle(config, config.mem_len, static_cast<int64_t>(c));
    const double cos = std::cos(angle), sin = std::sin(angle);
    for (size_t key = 0; key + width <= keys.size(); key += width) {
      const double a = keys[key + c], b = keys[key + half + c];
      keys[key + c] = static_cast<float>(a * cos - b * sin);
      keys[key + half + c] = static_cast<float>(a * sin + b * cos);
    }
  }
  return keys;
}

}  // namespace

void TurnedCodes::Load(const std::vector<float>& codebook, WeightLoader& loader) {
  if (turns_->bytes() == 0) *turns_ = loader.Upload(Turns(config_));
  far_ =
      loader.PackKeys(FarKeys(config_, codebook), {config_.n_kv_head, config_.n_code, config_.d_k});
  codebook_ = loader.Upload(codebook);
}

TurnedKeys TurnedCodes::keys(const VqShape& shape) const {
  return {shape,
          {codebook_.as<const float>(), {config_.n_kv_head, config_.n_code, config_.d_k}},
          {turns_->as<const float>(), {config_.window(), config_.d_k}}};
}

}  // namespace tvq
