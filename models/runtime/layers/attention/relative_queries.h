// Queries and keys of the kinds with a positional bias within the reach M (docs/mathematics.md):
// q + u meets keys or their codes, q + w the position keys. Of the other forms of the bias, q meets
// keys, and distances have scores that no query changes (toeplitz) or that are the codes' affair
// (rerope).
#ifndef TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_RELATIVE_QUERIES_H_
#define TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_RELATIVE_QUERIES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "kernels/ops/attention/head_scores.h"
#include "kernels/ops/qkvg_projection.h"
#include "models/runtime/layers/attention/attention_config.h"
#include "models/runtime/layers/attention/position_keys.h"
#include "models/runtime/stack/weight_loader.h"
#include "models/runtime/stack/working_memory.h"

namespace tvq {

// What the layers of a model share.
struct RelativeTables {
  explicit RelativeTables(const AttentionConfig& config);

  std::shared_ptr<const PositionKeys> keys;  // released when all layers are loaded
  std::shared_ptr<Buffer> ones;  // of toeplitz [rows, H]: what meets B in place of queries
};

// Of one layer.
class RelativeQueries {
 public:
  RelativeQueries(const AttentionConfig& config, RelativeTables tables)
      : config_(config), tables_(std::move(tables)) {}

  // As AttentionCore's methods of these names.
  void Load(const std::string& prefix, WeightLoader& loader);
  void Reserve(int64_t rows, WorkingMemory& memory);
  void Project(int64_t rows, QkvgProjectionArgs& args) const;

  // What fills position_scores from the rows that were projected. Not of rerope.
  HeadScoresArgs PositionScores(int64_t rows) const;

  // Of the first `n` rows.
  Tensor<float, 3> q_u(int64_t n) const { return {q_u_, {n, config_.n_head, config_.d_k}}; }
  Tensor<float, 3> k(int64_t n) const { return {k_, {n, config_.n_kv_head, config_.d_k}}; }
  Tensor<float, 3> position_scores(int64_t n) const {
    return {position_scores_, {n, config_.n_head, config_.window()}};
  }

 private:
  bool biased() const { return config_.position_bias == PositionBias::kRelative; }
  Tensor<float, 3> q_w(int64_t n) const { return {q_w_, {n, config_.n_head, config_.d_k}}; }

  const AttentionConfig config_;
  RelativeTables tables_;
  // t is folded into u, w and the position keys.
  QueryBiases biases_;  // empty unless biased()
  HeadKeys positions_;  // R [H, M+1, K], by distance; of toeplitz B [H, M+1, 1]
  float *q_u_ = nullptr, *q_w_ = nullptr, *k_ = nullptr, *position_scores_ = nullptr;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_RELATIVE_QUERIES_H_
