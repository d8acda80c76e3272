#include "models/runtime/layers/mlp/gated_mlp_layer.h"

namespace tvq {

void GatedMlpLayer::Load(WeightLoader& loader) {
  const int64_t width = config_.width, inner = config_.inner;
  const auto load = [&](const char* name, int64_t out, int64_t in, LinearWeight* weight,
                        Buffer* bias) {
    const std::string tensor = prefix() + "mlp." + name;
    const MatrixValues values = loader.ReadMatrix(tensor + ".weight", out, in);
    *weight = loader.Pack({&values});
    if (config_.biases) *bias = loader.Upload(loader.Read(tensor + ".bias", {out}));
  };
  norm_.Load(prefix() + "post_attention_layernorm", loader);
  load("gate_proj", inner, width, &gate_, &gate_bias_);
  load("up_proj", inner, width, &up_, &up_bias_);
  load("down_proj", width, inner, &down_, &down_bias_);
}

void GatedMlpLayer::Reserve(int64_t rows, WorkingMemory& memory) {
  memory.Share(&normed_, rows * config_.width);
  memory.Share(&gates_, rows * config_.inner);
  memory.Share(&inside_, rows * config_.inner);
}

absl::Status GatedMlpLayer::Compute(const LayerRows& rows) {
  const int64_t n = rows.x.dim(0);
  const Matrix<float> normed{normed_, {n, config_.width}};
  const Matrix<float> gates{gates_, {n, config_.inner}}, inside{inside_, {n, config_.inner}};
  absl::Status s = norm_.Apply(device_, rows.x, normed);
  if (s.ok()) s = Widen(normed, gate_, gate_bias_, Activation::kSilu, gates, rows.chunk_rows);
  if (s.ok()) s = Widen(normed, up_, up_bias_, Activation::kNone, inside, rows.chunk_rows);
  if (!s.ok()) return s;
  return GatedOutput(device_, {.o = inside,
                               .g = gates,
                               .weight = &down_,
                               .y = rows.x,
                               .chunk_rows = rows.chunk_rows,
                               .bias = Bias(down_bias_, config_.width)});
}

absl::Status GatedMlpLayer::Widen(Matrix<const float> normed, const LinearWeight& weight,
                                  const Buffer& bias, Activation activation, Matrix<float> inside,
                                  int64_t chunk_rows) {
  LinearArgs args;
  args.x = normed;
  args.weight = &weight;
  args.bias = Bias(bias, config_.inner);
  args.activation = activation;
  args.y = inside;
  args.chunk_rows = chunk_rows;
  return Linear(device_, args);
}

}  // namespace tvq
