#include "models/runtime/layers/recurrent/convolved/gated_delta_layer.h"

#include <utility>

namespace tvq {

GatedDeltaLayer::GatedDeltaLayer(std::string prefix, const Config& config, int64_t draft_rows,
                                 Device& device)
    : ConvolvedLayer(std::move(prefix),
                     {.norm = {.norm = Norm::kRms,
                               .width = config.width,
                               .epsilon = config.epsilon,
                               .gain_offset = config.gain_offset},
                      .projected = config.shape.projected(),
                      .first = 0,
                      .convolved = config.shape.convolved(),
                      .taps = config.taps,
                      .heads = config.shape.heads,
                      .key = config.shape.key,
                      .value = config.shape.value},
                     draft_rows, device),
      config_(config) {}

void GatedDeltaLayer::Load(WeightLoader& loader) {
  const GatedDeltaShape& shape = config_.shape;
  const int64_t width = config_.width, heads = shape.heads;
  const std::string attention = prefix() + "linear_attn.";
  const auto read = [&](const char* name, int64_t rows) {
    return loader.ReadMatrix(attention + name + ".weight", rows, width);
  };
  const MatrixValues qkv = read("in_proj_qkv", shape.convolved());
  const MatrixValues z = read("in_proj_z", heads * shape.value);
  const MatrixValues b = read("in_proj_b", heads), a = read("in_proj_a", heads);
  LoadFrame({.norm = prefix() + "input_layernorm",
             .convolution = attention + "conv1d",
             .output = attention + "out_proj"},
            loader.Pack({&qkv, &z, &b, &a}), /*convolution_bias=*/false, loader);
  rate_ = LoadRates(attention + "A_log", heads, loader);
  decay_bias_ = loader.Upload(loader.Read(attention + "dt_bias", {heads}));
  gain_ = loader.Upload(loader.Read(attention + "norm.weight", {shape.value}));
}

absl::Status GatedDeltaLayer::Mix(const RecurrentRows& sessions, Matrix<const float> projected,
                                  Matrix<const float> convolved, Tensor<float, 3> out) {
  return GatedDeltaRule(device_, {.sessions = sessions,
                                  .shape = config_.shape,
                                  .projected = projected,
                                  .convolved = convolved,
                                  .rate = PerHead(rate_),
                                  .decay_bias = PerHead(decay_bias_),
                                  .gain = VectorOf(gain_, config_.shape.value),
                                  .epsilon = config_.epsilon,
                                  .out = out});
}

}  // namespace tvq
