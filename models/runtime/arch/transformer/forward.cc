// From tokens to logits: docs/mathematics.md.
#include "absl/strings/str_cat.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/layer_norm.h"
#include "kernels/ops/qkvg_projection.h"
#include "kernels/ops/rms_norm.h"
#include "models/runtime/arch/transformer/model.h"

namespace tvq::transformer {
namespace {

// Heads side by side: [N, H, V] as [N, H*V].
Matrix<const float> Flat(Tensor<float, 3> t) { return {t.data, {t.dim(0), t.dim(1) * t.dim(2)}}; }

Vector<const float> VectorOf(const Buffer& buffer, int64_t size) {
  return {buffer.as<const float>(), {size}};
}

}  // namespace

absl::Status Transformer::CheckTokens(std::span<const int32_t> tokens) const {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= config_.common.vocab_size) {
      return absl::InvalidArgumentError(absl::StrCat(
          "token ", i, " is id ", tokens[i], ", must be in [0, ", config_.common.vocab_size, ")"));
    }
  }
  return absl::OkStatus();
}

absl::Status Transformer::Layers(int64_t chunk_rows, const Attend& attend) {
  const int64_t n = workspace_.inputs().tokens().size();
  absl::Status s = Embed(n);
  for (int64_t l = 0; s.ok() && l < config_.n_layer; ++l) s = Layer(l, n, chunk_rows, attend);
  return s;
}

absl::Status Transformer::Embed(int64_t n) {
  EmbeddingArgs args;
  args.table = weights_.embedding.data();
  args.dtype = weights_.embedding_dtype;
  args.vocab = config_.common.vocab_size;
  args.scales = VectorOf(weights_.embedding_scales, args.vocab);
  args.ids = workspace_.inputs().tokens();
  args.positions = workspace_.inputs().positions();
  args.position_scale = weights_.position_scale;
  args.position_lam = config_.pe_lam;
  args.out = workspace_.x(n);
  return Embedding(*device_, args);
}

absl::Status Transformer::Layer(int64_t l, int64_t n, int64_t chunk_rows, const Attend& attend) {
  if (absl::Status s = Project(l, n, chunk_rows); !s.ok()) return s;
  if (absl::Status s = attend(l, {workspace_.v(n), workspace_.o(n)}); !s.ok()) return s;
  if (config_.block == Block::kStandard) return StandardOutput(l, n, chunk_rows);
  const LayerWeights& layer = weights_.layers[static_cast<size_t>(l)];
  return GatedOutput(*device_, {Flat(workspace_.o(n)), Flat(workspace_.g(n)), &layer.out,
                                workspace_.x(n), chunk_rows});
}

absl::Status Transformer::Project(int64_t l, int64_t n, int64_t chunk_rows) {
  const LayerWeights& layer = weights_.layers[static_cast<size_t>(l)];
  QkvgProjectionArgs project;
  if (config_.block == Block::kStandard) {
    project.norm = tvq::Norm::kLayer;
    project.value_activation = Activation::kNone;
  }
  project.x = workspace_.x(n);
  project.gain = VectorOf(layer.norm_gain, config_.d_model);
  project.bias = VectorOf(layer.norm_bias, config_.d_model);
  project.weight = &layer.qkvg;
  project.v = workspace_.v(n);
  project.g = workspace_.g(n);
  project.chunk_rows = chunk_rows;
  attention_->Project(l, n, project);
  return QkvgProjection(*device_, project);
}

absl::Status Transformer::StandardOutput(int64_t l, int64_t n, int64_t chunk_rows) {
  const LayerWeights& layer = weights_.layers[static_cast<size_t>(l)];
  const Matrix<float> x = workspace_.x(n), normed = workspace_.normed(n);
  LinearArgs out;
  out.x = Flat(workspace_.o(n));
  out.weight = &layer.out;
  out.accumulate = true;
  out.y = x;
  out.chunk_rows = chunk_rows;
  if (absl::Status s = Linear(*device_, out); !s.ok()) return s;

  absl::Status s = Norm(x, layer.mlp_norm_gain, layer.mlp_norm_bias, normed);
  if (!s.ok()) return s;
  LinearArgs up;
  up.x = normed;
  up.weight = &layer.mlp_up;
  up.bias = VectorOf(layer.mlp_up_bias, config_.d_ff);
  up.activation = Activation::kGelu;
  up.y = workspace_.hidden(n);
  up.chunk_rows = chunk_rows;
  if (s = Linear(*device_, up); !s.ok()) return s;
  LinearArgs down;
  down.x = workspace_.hidden(n);
  down.weight = &layer.mlp_down;
  down.bias = VectorOf(layer.mlp_down_bias, config_.d_model);
  down.accumulate = true;
  down.y = x;
  down.chunk_rows = chunk_rows;
  return Linear(*device_, down);
}

absl::Status Transformer::Norm(Matrix<const float> x, const Buffer& gain, const Buffer& bias,
                               Matrix<float> out) {
  const Vector<const float> g = VectorOf(gain, config_.d_model),
                            b = VectorOf(bias, config_.d_model);
  if (config_.block == Block::kStandard) return LayerNorm(*device_, {x, g, b, out});
  return RmsNorm(*device_, {x, g, b, out});
}

absl::Status Transformer::ComputeLogits(int64_t first, Matrix<float> out) {
  const int64_t n = out.dim(0), d = config_.d_model;
  Matrix<float> x{workspace_.x(workspace_.rows()).row(first), {n, d}};
  if (config_.output_norm) {
    const Matrix<float> normed = workspace_.normed(n);
    absl::Status s = Norm(x, weights_.norm_gain, weights_.norm_bias, normed);
    if (!s.ok()) return s;
    x = normed;
  }
  LinearArgs args;
  args.x = x;
  args.weight = &weights_.logits;
  args.bias = VectorOf(weights_.logits_bias, out.dim(1));
  args.scale = static_cast<float>(config_.logit_scale);
  args.y = out;
  return Linear(*device_, args);
}

}  // namespace tvq::transformer
