#include "models/runtime/layers/recurrent/rwkv/channel_mix_layer.h"

#include <utility>

#include "kernels/ops/recurrent/recent_inputs.h"

namespace tvq {

ChannelMixLayer::ChannelMixLayer(std::string prefix, const RwkvConfig& config, int64_t draft_rows,
                                 Device& device)
    : RecurrentLayer(std::move(prefix), {.inputs = 1, .channels = config.width}, draft_rows,
                     device),
      config_(config),
      norm_(config.norm()) {}

void ChannelMixLayer::Load(WeightLoader& loader) {
  const int64_t width = config_.width, inner = config_.inner;
  norm_.Load(NormNameOf(prefix()), loader);
  mix_ = loader.Upload(loader.Read(prefix() + "x_k", {width}));
  const MatrixValues key = loader.ReadMatrix(prefix() + "key.weight", inner, width);
  key_ = loader.Pack({&key});
  const MatrixValues value = loader.ReadMatrix(prefix() + "value.weight", width, inner);
  value_ = loader.Pack({&value});
}

void ChannelMixLayer::ReserveRows(int64_t rows, WorkingMemory& memory) {
  memory.Share(&normed_, rows * config_.width);
  memory.Share(&shifted_, rows * config_.width);
  memory.Share(&inside_, rows * config_.inner);
}

absl::Status ChannelMixLayer::Compute(const RecurrentRows& sessions, const LayerRows& rows) {
  const int64_t n = rows.x.dim(0), width = config_.width;
  const Matrix<float> normed{normed_, {n, width}}, shifted{shifted_, {n, width}};
  const Matrix<float> inside{inside_, {n, config_.inner}};
  absl::Status s = norm_.Apply(device_, rows.x, normed);
  if (!s.ok()) return s;
  s = TokenShift(device_, {.sessions = sessions,
                           .x = normed,
                           .mix = {mix_.as<const float>(), {1, width}},
                           .out = {shifted_, {1, n, width}}});
  if (!s.ok()) return s;
  s = Multiply({.x = shifted, .weight = key_, .y = inside, .activation = Activation::kSquaredRelu},
               rows);
  if (!s.ok()) return s;
  return Multiply({.x = inside, .weight = value_, .y = rows.x, .accumulate = true}, rows);
}

}  // namespace tvq
