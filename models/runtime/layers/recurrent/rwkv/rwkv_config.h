// Shape and options of RWKV-7's layers.
#ifndef TVQ_MODELS_RUNTIME_LAYERS_RECURRENT_RWKV_RWKV_CONFIG_H_
#define TVQ_MODELS_RUNTIME_LAYERS_RECURRENT_RWKV_RWKV_CONFIG_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "models/runtime/stack/row_norm.h"

namespace tvq {

struct RwkvConfig {
  int64_t width = 0;  // D
  int64_t head = 0;   // K, divides D
  int64_t inner = 0;  // F, of the channel mixing
  // Widths between the two factors of the low-rank projections.
  int64_t decay_rank = 0, rate_rank = 0, value_rank = 0, gate_rank = 0;
  float epsilon = 0;  // of the norms of rows; that of a head's norm is K times as large
  bool norm_biases = false;

  int64_t heads() const { return width / head; }
  int64_t largest_rank() const { return std::max({decay_rank, rate_rank, value_rank, gate_rank}); }
  RowNorm::Config norm() const {
    return {.norm = Norm::kLayer, .width = width, .epsilon = epsilon, .bias = norm_biases};
  }
};

// The norm ahead of the layer "X." is "X_norm".
inline std::string NormNameOf(const std::string& prefix) {
  return prefix.substr(0, prefix.size() - 1) + "_norm";
}

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_RECURRENT_RWKV_RWKV_CONFIG_H_
