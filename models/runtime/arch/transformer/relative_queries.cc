#include "models/runtime/arch/transformer/relative_queries.h"

namespace tvq::transformer {

RelativeQueries::RelativeQueries(const TransformerConfig& config) : config_(config) {
  if (biased()) position_keys_.emplace(config, config.window());
}

void RelativeQueries::LoadLayer(const std::string& prefix, WeightLoader& loader) {
  const int64_t heads = config_.n_head, window = config_.window();
  LayerWeights& layer = layers_.emplace_back();
  if (biased()) {
    layer.biases = LoadQueryBiases(config_, prefix, loader);
    layer.positions = position_keys_->Load(prefix, loader);
    if (std::ssize(layers_) == config_.n_layer) position_keys_.reset();
  } else if (config_.position_bias == PositionBias::kToeplitz) {
    layer.positions =
        loader.PackKeys(loader.Read(prefix + "distance_bias", {heads, window}), {heads, window, 1});
    if (ones_.bytes() == 0) {
      ones_ = loader.Upload(std::vector<float>(static_cast<size_t>(config_.rows() * heads), 1.0F));
    }
  }
}

void RelativeQueries::AddMemory(int64_t rows, MemoryParts& parts) {
  parts.Add(&q_u_, q_u(rows).size());
  if (biased()) parts.Add(&q_w_, q_w(rows).size());
  parts.Add(&k_, k(rows).size());
  parts.Add(&position_scores_, position_scores(rows).size());
}

void RelativeQueries::Project(int64_t layer, int64_t rows, QkvgProjectionArgs& args) const {
  args.q_u = q_u(rows);
  args.k = k(rows);
  if (!biased()) return;
  const QueryBiases& biases = layers_[static_cast<size_t>(layer)].biases;
  args.u = {biases.u.as<const float>(), {config_.n_head, config_.d_k}};
  args.w = {biases.w.as<const float>(), {config_.n_head, config_.d_k}};
  args.q_w = q_w(rows);
}

HeadScoresArgs RelativeQueries::PositionScores(int64_t layer, int64_t rows) const {
  const HeadKeys& positions = layers_[static_cast<size_t>(layer)].positions;
  const Tensor<const float, 3> ones{ones_.as<const float>(), {rows, config_.n_head, 1}};
  return {biased() ? q_w(rows) : ones, &positions, position_scores(rows)};
}

}  // namespace tvq::transformer
