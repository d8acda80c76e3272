#include "models/runtime/layers/attention/relative_queries.h"

#include <vector>

namespace tvq {

RelativeTables::RelativeTables(const AttentionConfig& config) : ones(std::make_shared<Buffer>()) {
  if (config.position_bias == PositionBias::kRelative) {
    keys = std::make_shared<const PositionKeys>(config, config.window());
  }
}

void RelativeQueries::Load(const std::string& prefix, WeightLoader& loader) {
  const int64_t heads = config_.n_head, window = config_.window();
  if (biased()) {
    biases_ = LoadQueryBiases(config_, prefix, loader);
    positions_ = tables_.keys->Load(prefix, loader);
    tables_.keys.reset();
  } else if (config_.position_bias == PositionBias::kToeplitz) {
    positions_ =
        loader.PackKeys(loader.Read(prefix + "distance_bias", {heads, window}), {heads, window, 1});
    if (tables_.ones->bytes() == 0) {
      *tables_.ones =
          loader.Upload(std::vector<float>(static_cast<size_t>(config_.rows() * heads), 1.0F));
    }
  }
}

void RelativeQueries::Reserve(int64_t rows, WorkingMemory& memory) {
  memory.Share(&q_u_, q_u(rows).size());
  if (biased()) memory.Share(&q_w_, q_w(rows).size());
  memory.Share(&k_, k(rows).size());
  memory.Share(&position_scores_, position_scores(rows).size());
}

void RelativeQueries::Project(int64_t rows, QkvgProjectionArgs& args) const {
  args.q_u = q_u(rows);
  args.k = k(rows);
  if (!biased()) return;
  args.u = {biases_.u.as<const float>(), {config_.n_head, config_.d_k}};
  args.w = {biases_.w.as<const float>(), {config_.n_head, config_.d_k}};
  args.q_w = q_w(rows);
}

HeadScoresArgs RelativeQueries::PositionScores(int64_t rows) const {
  const Tensor<const float, 3> ones{tables_.ones->as<const float>(), {rows, config_.n_head, 1}};
  return {biased() ? q_w(rows) : ones, &positions_, position_scores(rows)};
}

}  // namespace tvq
