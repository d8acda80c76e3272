#include "models/runtime/layers/recurrent/convolved/mamba_layer.h"

#include <utility>

namespace tvq {

MambaLayer::MambaLayer(std::string prefix, const Config& config, int64_t draft_rows, Device& device)
    : ConvolvedLayer(
          std::move(prefix),
          {.norm = {.norm = Norm::kRms, .width = config.width, .epsilon = config.epsilon},
           .projected = config.shape.projected(),
           .first = config.shape.inner(),
           .convolved = config.shape.convolved(),
           .taps = config.taps,
           .heads = config.shape.heads,
           .key = config.shape.key,
           .value = config.shape.value},
          draft_rows, device),
      config_(config),
      inner_norm_({.norm = Norm::kRms, .width = config.shape.inner(), .epsilon = config.epsilon}) {}

void MambaLayer::Load(WeightLoader& loader) {
  const MambaShape& shape = config_.shape;
  const std::string mixer = prefix() + "mixer.";
  const MatrixValues in =
      loader.ReadMatrix(mixer + "in_proj.weight", shape.projected(), config_.width);
  LoadFrame({.norm = prefix() + "norm",
             .input_bias = config_.biases ? mixer + "in_proj.bias" : "",
             .convolution = mixer + "conv1d",
             .output = mixer + "out_proj"},
            loader.Pack({&in}), config_.convolution_bias, loader);
  inner_norm_.Load(mixer + "norm", loader);
  rate_ = LoadRates(mixer + "A_log", shape.heads, loader);
  step_bias_ = loader.Upload(loader.Read(mixer + "dt_bias", {shape.heads}));
  skip_ = loader.Upload(loader.Read(mixer + "D", {shape.heads}));
}

absl::Status MambaLayer::Mix(const RecurrentRows& sessions, Matrix<const float> projected,
                             Matrix<const float> convolved, Tensor<float, 3> out) {
  const absl::Status s = MambaScan(device_, {.sessions = sessions,
                                             .shape = config_.shape,
                                             .projected = projected,
                                             .convolved = convolved,
                                             .rate = PerHead(rate_),
                                             .step_bias = PerHead(step_bias_),
                                             .skip = PerHead(skip_),
                                             .least_step = config_.least_step,
                                             .most_step = config_.most_step,
                                             .out = out});
  if (!s.ok()) return s;
  const Matrix<float> flat{out.data, {out.dim(0), config_.shape.inner()}};
  return inner_norm_.Apply(device_, flat, flat);
}

}  // namespace tvq
