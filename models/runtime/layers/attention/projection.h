// The projections around a layer's attention (docs/mathematics.md): before it, from rows to
// queries, keys, values and gates; behind it, from its output back to the rows.
#ifndef TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_PROJECTION_H_
#define TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_PROJECTION_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "kernels/device/device.h"
#include "kernels/device/tensor.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/qkvg_projection.h"
#include "models/runtime/layers/attention/attention_config.h"
#include "models/runtime/stack/layer.h"
#include "models/runtime/stack/weight_loader.h"
#include "models/runtime/stack/working_memory.h"

namespace tvq {

// With gates, or without as in a standard block.
class Projection {
 public:
  // The device must outlive it.
  Projection(const AttentionConfig& config, Device& device) : config_(config), device_(device) {}

  void Load(const std::string& prefix, WeightLoader& loader);
  void Reserve(int64_t rows, WorkingMemory& memory);

  // `args` says where queries and keys go (AttentionCore::Project). Values go to v.
  absl::Status Project(const LayerRows& rows, QkvgProjectionArgs args);
  // Projects what attention has written to out(), and adds it to the rows.
  absl::Status Output(const LayerRows& rows);

  // Of the first `n` rows.
  Tensor<float, 3> v(int64_t n) const { return {v_, {n, config_.n_kv_head, config_.d_v}}; }
  Tensor<float, 3> out(int64_t n) const { return {out_, {n, config_.n_head, config_.d_v}}; }

 private:
  bool gated() const { return config_.block == Block::kGated; }
  // Of shape [0, 0, 0] if there are no gates.
  Tensor<float, 3> g(int64_t n) const {
    return gated() ? Tensor<float, 3>{g_, {n, config_.n_head, config_.d_v}} : Tensor<float, 3>();
  }

  const AttentionConfig config_;
  Device& device_;
  Buffer norm_gain_, norm_bias_;  // [D]
  LinearWeight qkvg_;             // [H*K + G*K + G*V + H*V, D]; the last only if gated
  LinearWeight o_;                // [D, H*V]
  float *v_ = nullptr, *g_ = nullptr, *out_ = nullptr;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_PROJECTION_H_
