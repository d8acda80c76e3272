#include "models/runtime/arch/transformer/relative_queries.h"

#include <utility>

namespace tvq::transformer {

RelativeQueries::RelativeQueries(const TransformerConfig& config)
    : config_(config), position_keys_(std::in_place, config, config.window()) {}

void RelativeQueries::LoadLayer(const std::string& prefix, WeightLoader& loader) {
  LayerWeights& layer = layers_.emplace_back();
  layer.biases = LoadQueryBiases(config_, prefix, loader);
  layer.positions = position_keys_->Load(prefix, loader);
}

void RelativeQueries::AddMemory(int64_t rows, MemoryParts& parts) {
  position_keys_.reset();
  parts.Add(&q_u_, q_u(rows).size());
  parts.Add(&q_w_, q_w(rows).size());
  parts.Add(&k_, k(rows).size());
  parts.Add(&position_scores_, position_scores(rows).size());
}

void RelativeQueries::Project(int64_t layer, int64_t rows, QkvgProjectionArgs& args) const {
  const QueryBiases& biases = layers_[static_cast<size_t>(layer)].biases;
  args.u = {biases.u.as<const float>(), {config_.n_head, config_.d_k}};
  args.w = {biases.w.as<const float>(), {config_.n_head, config_.d_k}};
  args.q_u = q_u(rows);
  args.q_w = q_w(rows);
  args.k = k(rows);
}

absl::Status RelativeQueries::ScorePositions(Device& device, int64_t layer, int64_t rows) const {
  const HeadKeys& positions = layers_[static_cast<size_t>(layer)].positions;
  return HeadScores(device, {q_w(rows), &positions, position_scores(rows)});
}

}  // namespace tvq::transformer
