// Queries and keys of the kinds with a positional bias within the reach M (docs/mathematics.md).
// With the relative bias q + u is multiplied with keys or their codes, and q + w with the position
// keys. With the other forms q is multiplied with keys; the score of a distance is the same for all
// queries (toeplitz), or is computed with the codes (rerope, turned_codes.h).
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

// Tables that all layers of a model share.
struct RelativeTables {
  explicit RelativeTables(const AttentionConfig& config);

  std::shared_ptr<const PositionKeys> keys;  // released when all layers are loaded
  std::shared_ptr<Buffer> ones;  // toeplitz: ones [rows, H], multiplied with B in place of queries
};

// The queries and keys of one layer.
class RelativeQueries {
 public:
  RelativeQueries(const AttentionConfig& config, RelativeTables tables)
      : config_(config), tables_(std::move(tables)) {}

  // As AttentionCore's methods of these names.
  void Load(const std::string& prefix, WeightLoader& loader);
  void Reserve(int64_t rows, WorkingMemory& memory);
  void Project(int64_t rows, QkvgProjectionArgs& args) const;

  // The arguments of the op that computes position_scores of the rows projected last. Not for
  // rerope.
  HeadScoresArgs PositionScores(int64_t rows) const;

  // For the first `n` rows.
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
  HeadKeys positions_;  // R [H, M+1, K], by distance; for toeplitz B [H, M+1, 1]
  float *q_u_ = nullptr, *q_w_ = nullptr, *k_ = nullptr, *position_scores_ = nullptr;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_RELATIVE_QUERIES_H_
