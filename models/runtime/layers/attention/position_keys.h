// Position keys, R_d = (sinusoid(d) Wr) * t for distances d = 0..M. Kinds with a positional bias
// multiply queries with them (docs/mathematics.md).
#ifndef TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_POSITION_KEYS_H_
#define TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_POSITION_KEYS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "models/runtime/layers/attention/attention_config.h"
#include "models/runtime/stack/weight_loader.h"

namespace tvq {

// t = K^(-1/4), the factor of both queries and keys.
float KeyScale(const AttentionConfig& config);

// u and w, times t: u is added to queries for products with keys, w for those with position keys.
struct QueryBiases {
  Buffer u;  // [H, K]
  Buffer w;  // [H, K]
};
QueryBiases LoadQueryBiases(const AttentionConfig& config, const std::string& prefix,
                            WeightLoader& loader);

// Loads the position keys of all layers of a model; the sinusoids are computed once.
class PositionKeys {
 public:
  // `window` = M + 1 distances.
  PositionKeys(const AttentionConfig& config, int64_t window);

  // R [H, W, K], by distance, from the tensor `prefix` + "r_proj.weight".
  HeadKeys Load(const std::string& prefix, WeightLoader& loader) const;

 private:
  std::vector<float> Turned(const std::vector<float>& wr, WeightLoader& loader) const;

  const AttentionConfig config_;
  const int64_t window_;
  std::vector<float> sinusoids_;  // [W, D]
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_POSITION_KEYS_H_
