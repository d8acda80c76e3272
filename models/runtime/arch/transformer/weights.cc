#include "models/runtime/arch/transformer/weights.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "models/runtime/arch/transformer/weight_loader.h"

namespace tvq::transformer {
namespace {

void LoadMlp(const TransformerConfig& c, const std::string& p, WeightLoader& loader,
             LayerWeights& layer) {
  const int64_t d = c.d_model, f = c.d_ff;
  layer.mlp_norm_gain = loader.Upload(loader.Read(p + "mlp_norm.weight", {d}));
  layer.mlp_norm_bias = loader.Upload(loader.Read(p + "mlp_norm.bias", {d}));
  const MatrixValues up = loader.ReadMatrix(p + "mlp_up.weight", f, d);
  layer.mlp_up = loader.Pack({&up});
  layer.mlp_up_bias = loader.Upload(loader.Read(p + "mlp_up.bias", {f}));
  const MatrixValues down = loader.ReadMatrix(p + "mlp_down.weight", d, f);
  layer.mlp_down = loader.Pack({&down});
  layer.mlp_down_bias = loader.Upload(loader.Read(p + "mlp_down.bias", {d}));
}

LayerWeights LoadLayer(const TransformerConfig& c, const std::string& p, WeightLoader& loader) {
  const int64_t d = c.d_model, qk = c.n_head * c.d_k, kk = c.n_kv_head * c.d_k;
  const int64_t vv = c.n_kv_head * c.d_v, gv = c.n_head * c.d_v;
  LayerWeights layer;
  layer.norm_gain = loader.Upload(loader.Read(p + "norm.weight", {d}));
  layer.norm_bias = loader.Upload(loader.Read(p + "norm.bias", {d}));
  const MatrixValues wq = loader.ReadMatrix(p + "q_proj.weight", qk, d);
  const MatrixValues wk = loader.ReadMatrix(p + "k_proj.weight", kk, d);
  const MatrixValues wv = loader.ReadMatrix(p + "v_proj.weight", vv, d);
  if (c.block == Block::kGated) {
    const MatrixValues wg = loader.ReadMatrix(p + "g_proj.weight", gv, d);
    layer.qkvg = loader.Pack({&wq, &wk, &wv, &wg});
  } else {
    layer.qkvg = loader.Pack({&wq, &wk, &wv});
    LoadMlp(c, p, loader, layer);
  }
  const MatrixValues wo = loader.ReadMatrix(p + "o_proj.weight", d, gv);
  layer.out = loader.Pack({&wo});
  return layer;
}

void LoadLogits(const TransformerConfig& c, const MatrixValues& embedding, WeightLoader& loader,
                Weights& weights) {
  const int64_t vocab = c.common.vocab_size;
  if (c.output_norm) {
    weights.norm_gain = loader.Upload(loader.Read("norm.weight", {c.d_model}));
    weights.norm_bias = loader.Upload(loader.Read("norm.bias", {c.d_model}));
  }
  if (c.tie_word_embeddings) {
    weights.logits = loader.Pack({&embedding});
  } else {
    const MatrixValues head = loader.ReadVocabularyMatrix("lm_head.weight", vocab, c.d_model);
    weights.logits = loader.Pack({&head});
  }
  weights.logits_bias = loader.Upload(loader.Read("lm_head.bias", {vocab}));
}

}  // namespace

absl::StatusOr<Weights> LoadWeights(const TransformerConfig& c, Attention& attention,
                                    WeightSource& source, const LoadOptions& options) {
  WeightLoader loader(source, options);
  Weights weights;
  const MatrixValues embedding =
      loader.ReadVocabularyMatrix("embedding.weight", c.common.vocab_size, c.d_model);
  weights.embedding = loader.UploadMatrix(embedding);
  weights.embedding_dtype = embedding.dtype;
  if (embedding.dtype == DType::kInt8) {
    weights.embedding_scales = loader.Upload(embedding.scales);
  }
  if (c.pe_abs) {
    const std::vector<float> scale = loader.Read("position.scale", {1});
    weights.position_scale = scale.empty() ? 0 : scale[0];
  }
  for (int64_t i = 0; i < c.n_layer && loader.status().ok(); ++i) {
    const std::string prefix = absl::StrCat("layers.", i, ".");
    weights.layers.push_back(LoadLayer(c, prefix, loader));
    attention.LoadLayer(prefix, loader);
    if (options.progress) options.progress(i + 1, c.n_layer);
  }
  LoadLogits(c, embedding, loader, weights);

  if (!loader.status().ok()) return loader.status();
  weights.parameters = loader.parameters();
  weights.bytes = loader.bytes();
  weights.rounding = loader.rounding();
  return weights;
}

}  // namespace tvq::transformer
